package attest

// advisories are published escapes from a container, or to parts of the host, that matter
// to those who run containers: by a malicious image, by what runs inside, or by what a
// program does to a container that runs. Ranges are those of the advisories, whose
// numbers are the releases of the projects themselves. What takes a checkpoint to restore
// is not here.
var advisories = []advisory{
	{
		"runc", "CVE-2019-5736", []versions{{"", "1.0.0-rc7"}},
		"a program in the container overwrites runc on the host",
		"https://www.openwall.com/lists/oss-security/2019/02/11/2",
	},
	{
		"runc", "CVE-2021-30465", []versions{{"", "1.0.0-rc95"}},
		"a mount is redirected to the host's files by exchanging links",
		"https://github.com/opencontainers/runc/security/advisories/GHSA-c3xm-pvg7-gh7r",
	},
	{
		"runc", "CVE-2023-28642", []versions{{"", "1.1.5"}},
		"an image with a link in place of /proc gets past AppArmor",
		"https://github.com/opencontainers/runc/security/advisories/GHSA-g2j6-57v7-gm8c",
	},
	{
		"runc", "CVE-2024-21626", []versions{{"1.0.0-rc93", "1.1.12"}},
		"a descriptor that leaks gives an image the host's file system as its working directory",
		"https://github.com/opencontainers/runc/security/advisories/GHSA-xr7r-f8xq-vfvv",
	},
	{
		"runc", "CVE-2024-45310", []versions{{"", "1.1.14"}, {"1.2.0-rc.1", "1.2.0-rc.3"}},
		"containers that share a volume create empty files on the host",
		"https://github.com/opencontainers/runc/security/advisories/GHSA-jfvp-7x6p-h2pv",
	},
	{
		"runc", "CVE-2025-31133", []versions{{"", "1.2.8"}, {"1.3.0-rc.1", "1.3.3"}, {"1.4.0-rc.1", "1.4.0-rc.3"}},
		"a /dev/null that is exchanged while paths are masked opens the host's settings in /proc",
		"https://github.com/opencontainers/runc/security/advisories/GHSA-9493-h29p-rfm2",
	},
	{
		"runc", "CVE-2025-52565", []versions{{"1.0.0-rc3", "1.2.8"}, {"1.3.0-rc.1", "1.3.3"}, {"1.4.0-rc.1", "1.4.0-rc.3"}},
		"a race for /dev/console opens the host's settings in /proc",
		"https://github.com/opencontainers/runc/security/advisories/GHSA-qw9x-cqr3-wc7r",
	},
	{
		"runc", "CVE-2025-52881", []versions{{"", "1.2.8"}, {"1.3.0-rc.1", "1.3.3"}, {"1.4.0-rc.1", "1.4.0-rc.3"}},
		"what runc writes into /proc is redirected by containers with shared mounts",
		"https://github.com/opencontainers/runc/security/advisories/GHSA-cgrx-mc8f-2prm",
	},
	{
		"runc", "CVE-2026-41579", []versions{{"", "1.3.6"}, {"1.4.0-rc.1", "1.4.3"}, {"1.5.0-rc.1", "1.5.0-rc.3"}},
		"an image with a link in place of /dev writes to the host's file system, within narrow limits",
		"https://github.com/opencontainers/runc/security/advisories/GHSA-xjvp-4fhw-gc47",
	},

	{
		"crun", "CVE-2019-18837", []versions{{"", "0.10.5"}},
		"an image with links reaches files outside the container",
		"https://github.com/containers/crun/releases/tag/0.10.5",
	},
	{
		"crun", "CVE-2026-30892", []versions{{"1.19", "1.27"}},
		"exec as user 1 runs as root",
		"https://github.com/containers/crun/security/advisories/GHSA-4vg2-xjqj-7chj",
	},
	{
		"crun", "CVE-2026-47766", []versions{{"", "1.28"}},
		"an image with a link in place of /dev makes devices and links on the host",
		"https://github.com/containers/crun/security/advisories/GHSA-7vwr-4279-7gq5",
	},
	{
		"crun", "CVE-2026-88264", []versions{{"", "1.30"}},
		"an image with a link in place of /dev/console creates a file on the host",
		"https://github.com/containers/crun/releases/tag/1.30",
	},
	{
		"crun", "CVE-2026-88265", []versions{{"", "1.30"}},
		"an image with a link in place of /dev/null writes to a file of the host that is mounted",
		"https://github.com/containers/crun/releases/tag/1.30",
	},
	{
		"crun", "CVE-2026-115521", []versions{{"", "1.31"}},
		"an image redirects the remounting of a read-only root, which stays writable",
		"https://github.com/containers/crun/releases/tag/1.31",
	},

	{
		"containerd", "CVE-2020-15257", []versions{{"", "1.3.9"}, {"1.4.0", "1.4.3"}},
		"root in a container with the host's network starts processes on the host",
		"https://github.com/containerd/containerd/security/advisories/GHSA-36xw-fx78-c5r4",
	},
	{
		"containerd", "CVE-2022-23648", []versions{{"", "1.4.13"}, {"1.5.0", "1.5.10"}, {"1.6.0", "1.6.1"}},
		"an image's volumes read the host's files, in containers that are started through the CRI",
		"https://github.com/containerd/containerd/security/advisories/GHSA-crp2-qrr5-8pq7",
	},
	{
		"containerd", "CVE-2024-40635", []versions{{"", "1.6.38"}, {"1.7.0-beta.0", "1.7.27"}, {"2.0.0-beta.0", "2.0.4"}},
		"a user of a number that is too large is root",
		"https://github.com/containerd/containerd/security/advisories/GHSA-265r-hfxg-fhmg",
	},
	{
		"containerd", "CVE-2025-47290", []versions{{"2.1.0", "2.1.1"}},
		"an image changes the host's file system while it is pulled",
		"https://github.com/containerd/containerd/security/advisories/GHSA-cm76-qm8v-3j95",
	},
	{
		"containerd", "CVE-2026-53488", []versions{
			{"", "1.7.33"}, {"2.0.0-beta.0", "2.0.10"}, {"2.1.0-beta.0", "2.1.9"}, {"2.2.0-beta.0", "2.2.5"}, {"2.3.0-beta.0", "2.3.2"},
		},
		"an image's labels start a program of the host as root, in containers that are started through the CRI",
		"https://github.com/containerd/containerd/security/advisories/GHSA-xhf5-7wjv-pqxp",
	},

	{
		"docker", "CVE-2019-14271", []versions{{"19.03.0", "19.03.1"}},
		"docker cp loads a library of the container as the host's root",
		"https://github.com/moby/moby/issues/39449",
	},
	{
		"docker", "CVE-2021-21284", []versions{{"", "19.03.15"}, {"20.0.0", "20.10.3"}},
		"a remapped root that reaches the engine's directory becomes the host's",
		"https://github.com/moby/moby/security/advisories/GHSA-7452-xqpj-6rpc",
	},
	{
		"docker", "CVE-2024-41110", []versions{
			{"19.03.0", "19.03.16"}, {"20.0.0", "20.10.28"}, {"23.0.0", "23.0.15"}, {"24.0.0", "24.0.10"}, {"25.0.0", "25.0.6"},
			{"26.0.0", "26.0.3"}, {"26.1.0", "26.1.5"}, {"27.0.0", "27.0.4"}, {"27.1.0", "27.1.1"},
		},
		"authorization plugins are bypassed",
		"https://github.com/moby/moby/security/advisories/GHSA-v23v-6jw2-98fq",
	},
	{
		"docker", "CVE-2026-34040", []versions{{"", "29.3.1"}},
		"authorization plugins are bypassed",
		"https://github.com/moby/moby/security/advisories/GHSA-x744-4wpc-v9h2",
	},
	{
		"docker", "CVE-2026-41567", []versions{{"", "29.5.1"}},
		"docker cp of a compressed archive runs a program of the container as the host's root",
		"https://github.com/moby/moby/security/advisories/GHSA-x86f-5xw2-fm2r",
	},
	{
		"docker", "CVE-2026-42306", []versions{{"", "29.5.1"}},
		"docker cp redirects a mount to a path of the host",
		"https://github.com/moby/moby/security/advisories/GHSA-rg2x-37c3-w2rh",
	},
	{
		"docker client", "CVE-2026-17106", []versions{{"", "29.7.0"}},
		"docker cp out of a container writes to any file of its user",
		"https://www.imperva.com/blog/copyescape-taking-over-docker-hosts-with-docker-cp/",
	},
	{
		"docker desktop", "CVE-2025-9074", []versions{{"4.25", "4.44.3"}},
		"a container with a network reaches the engine's API",
		"https://docs.docker.com/desktop/release-notes/#4443",
	},

	{
		"podman", "CVE-2019-10152", []versions{{"", "1.4.0"}},
		"podman cp follows a container's links to the host's files",
		"https://github.com/advisories/GHSA-rh5f-2w6r-q7vj",
	},
	{
		"podman", "CVE-2024-1753", []versions{{"4.0.0", "4.9.4"}, {"5.0.0", "5.0.1"}},
		"podman build mounts the host's root",
		"https://github.com/containers/podman/security/advisories/GHSA-874v-pj72-92f3",
	},
	{
		"podman", "CVE-2026-57231", []versions{{"1.8.1", "5.8.4"}},
		"an image takes variables out of the environment of whoever runs podman",
		"https://github.com/advisories/GHSA-4hq8-gpf5-8p68",
	},
	{
		"podman", "CVE-2026-94603", []versions{{"4.4.0", "5.8.8"}, {"6.0.0", "6.1.3"}},
		"an image's annotation switches nearly all isolation off, whatever was asked for",
		"https://github.com/podman-container-tools/podman/security/advisories/GHSA-2cvf-wqm6-wr9g",
	},
}
