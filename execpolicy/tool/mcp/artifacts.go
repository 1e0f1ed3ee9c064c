package main

import (
	"context"
	"fmt"
	"mime"
	"net/url"
	"path"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-64a260eb/cofferdam/execpolicy/tool"
)

const (
	maxArtifacts = 100
	// maxArtifact is how many bytes an artifact may have: it is sent as one message.
	maxArtifact = 16 << 20
	// lookWait is how long a call that has ended may wait to look for artifacts.
	lookWait = 5 * time.Second
)

// An artifact is a file that the client can fetch, as it was when it was last looked at.
type artifact struct {
	size int64
	time time.Time
}

// artifacts makes resources of the files in the directory for artifacts, and returns
// links to those that are new or have changed. What of it fails is left out: the
// directory need not exist.
func (c *client) artifacts(ctx context.Context, set *tool.Set) (links []mcp.Content) {
	if c.options.artifacts == "" {
		return nil
	}
	// Another command may use the session. A later call tells what this one does not.
	ctx, cancel := context.WithTimeout(ctx, lookWait)
	defer cancel()
	if c.looking.Take(ctx) != nil {
		return nil
	}
	defer c.looking.Give()
	entries, err := set.Session.ReadDir(ctx, c.options.artifacts)
	if err != nil && ctx.Err() != nil {
		return nil
	}
	found := map[string]artifact{}
	for _, e := range entries {
		if len(found) == maxArtifacts {
			break
		}
		if !e.Mode.IsRegular() || !utf8.ValidString(e.Name) {
			continue
		}
		uri := (&url.URL{Scheme: "cofferdam", Path: "/" + path.Join(c.options.artifacts, e.Name)}).String()
		now := artifact{e.Size, e.ModTime}
		found[uri] = now
		if c.shown[uri] == now {
			continue
		}
		name := path.Join(c.options.artifacts, e.Name)
		kind := mime.TypeByExtension(path.Ext(e.Name))
		c.AddResource(&mcp.Resource{URI: uri, Name: e.Name, MIMEType: kind, Size: e.Size},
			func(ctx context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
				return c.fetch(ctx, set, name, r.Params.URI, kind)
			})
		links = append(links, &mcp.ResourceLink{URI: uri, Name: e.Name, MIMEType: kind, Size: &now.size})
	}
	var gone []string
	for uri := range c.shown {
		if _, ok := found[uri]; !ok {
			gone = append(gone, uri)
		}
	}
	slices.Sort(gone)
	c.RemoveResources(gone...)
	c.shown = found
	return links
}

// fetch reads an artifact.
func (c *client) fetch(ctx context.Context, set *tool.Set, name, uri, kind string) (*mcp.ReadResourceResult, error) {
	select {
	case c.pending <- struct{}{}:
		defer func() { <-c.pending }()
	default:
		return nil, fmt.Errorf("too many calls at once: %d are under way", maxPending)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.life, cancel)()
	data, err := set.Session.ReadFile(ctx, name, maxArtifact)
	if err != nil {
		return nil, err
	}
	content := &mcp.ResourceContents{URI: uri, MIMEType: kind}
	if !utf8.Valid(data) {
		content.Blob = data
	} else if text := set.Session.Redact(string(data)); 8*controls(text) <= len(text) {
		content.Text = text
	} else {
		// JSON takes six bytes for a control character, and four for three of a blob.
		content.Blob = []byte(text)
	}
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{content}}, nil
}

// controls counts the characters of a text that texts do not have.
func controls(text string) (n int) {
	for _, r := range text {
		if r < ' ' && r != '\n' && r != '\t' && r != '\r' {
			n++
		}
	}
	return n
}
