package dockercli

// What tests of this package need besides its public names.
var (
	ErrRemoving    = errRemoving
	InspectArgs    = (*Engine).inspectArgs
	ImageArgs      = (*Engine).inspectImageArgs
	PullArgs       = (*Engine).pullArgs
	PSArgs         = (*Engine).psArgs
	OOMArgs        = (*Engine).oomArgs
	ExitArgs       = (*Engine).exitArgs
	ImportArgs     = (*Engine).importArgs
	InfoArgs       = (*Engine).infoArgs
	TimeArgs       = (*Engine).timeArgs
	ParseContainer = parseContainer
	ParseImage     = parseImage
	ParseInfo      = parseInfo
	ParseValues    = parseValues
	Split          = split
	HidePasswords  = hidePasswords
	HidePassword   = hidePassword
	NobodyListens  = func(stderr string) bool { return saysAny(stderr, nobodyListens) }

	ContextsArgs  = (*Engine).contextsArgs
	ImagesArgs    = (*Engine).imagesArgs
	ParseContexts = parseContexts
	ParseImages   = parseImages

	CreateVolumeArgs  = (*Engine).createVolumeArgs
	InspectVolumeArgs = (*Engine).inspectVolumeArgs
	VolumesArgs       = (*Engine).volumesArgs
	RemoveVolumeArgs  = (*Engine).removeVolumeArgs
	TryRuntimeArgs    = (*Engine).tryRuntimeArgs
	ParseVolume       = parseVolume
	ErrVolumeExists   = errVolumeExists

	SettingsArgs    = (*Engine).settingsArgs
	ComponentsArgs  = (*Engine).componentsArgs
	ParseSettings   = parseSettings
	ParseComponents = Kind.parseComponents
)

// MountValue returns the value of --mount, and what was refused.
func MountValue(m Mount) (string, error) {
	var c checker
	value := m.value(&c, Docker.dialect())
	return value, c.err()
}

// ClassCount returns how many rows the table of messages has, and ClassWords the words of
// one.
func ClassCount() int           { return len(classes) }
func ClassWords(i int) []string { return classes[i].Words }

// SetSELinuxFile names another file that says that the kernel has SELinux, until the test
// ends.
func SetSELinuxFile(t interface{ Cleanup(func()) }, name string) {
	was := selinuxFile
	t.Cleanup(func() { selinuxFile = was })
	selinuxFile = name
}
