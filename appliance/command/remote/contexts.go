package remote

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"landfall/appliance/durable"
)

// Context is an appliance that a person uses, with the login at it.
type Context struct {
	Name      string    `json:"name"`
	URL       string    `json:"url"`
	CA        string    `json:"ca,omitempty"` // certificates in PEM
	User      string    `json:"user,omitempty"`
	Role      string    `json:"role,omitempty"`
	Token     string    `json:"token,omitempty"`
	ExpiresAt time.Time `json:"expires_at,omitzero"`
	// Members are the URLs of the other members of the appliance's fleet. The login is one at all.
	Members []string `json:"members,omitempty"`
}

// is reports whether a URL is that of the appliance, or of a member of its fleet.
func (c *Context) is(address string) bool {
	return sameURL(c.URL, address) || slices.ContainsFunc(c.Members, func(member string) bool {
		return sameURL(member, address)
	})
}

// Contexts is the content of the file with a person's contexts.
type Contexts struct {
	Current string    `json:"current,omitempty"`
	All     []Context `json:"contexts"`

	path string
}

// LoadContexts reads the contexts from the person's configuration directory. A missing file has
// none.
func LoadContexts() (*Contexts, error) {
	dir, err := os.UserConfigDir() // $XDG_CONFIG_HOME or ~/.config
	if err != nil {
		return &Contexts{}, nil // a service without a home directory uses LANDFALL_TOKEN
	}
	contexts := &Contexts{path: filepath.Join(dir, "landfall", "contexts.json")}
	info, err := os.Stat(contexts.path)
	if errors.Is(err, fs.ErrNotExist) {
		return contexts, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the contexts: %w", err)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return nil, fmt.Errorf("%s has mode %04o, so others may have read the tokens in it; remove it, and run "+
			"landfall login again", contexts.path, mode)
	}
	text, err := os.ReadFile(contexts.path)
	if err != nil {
		return nil, fmt.Errorf("read the contexts: %w", err)
	}
	if err := json.Unmarshal(text, contexts); err != nil {
		return nil, fmt.Errorf("%s cannot be read (%w); remove it, and run landfall login again", contexts.path, err)
	}
	return contexts, nil
}

// Save writes the file, readable by its owner only. After a crash, it is either the old or the new
// one.
func (c *Contexts) Save() error {
	if c.path == "" {
		return errors.New("the login cannot be stored, because there is no home directory; set HOME or " +
			"XDG_CONFIG_HOME")
	}
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return fmt.Errorf("write the contexts: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(c.path), 0o700); err != nil {
		return fmt.Errorf("write the contexts: %w", err)
	}
	if err := durable.WriteFile(c.path, append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("write the contexts: %w", err)
	}
	return nil
}

// Find returns the context with a name, or nil.
func (c *Contexts) Find(name string) *Context {
	if i := slices.IndexFunc(c.All, func(one Context) bool { return one.Name == name }); i >= 0 {
		return &c.All[i]
	}
	return nil
}

// ForURL returns the context of an appliance, or else of a fleet with this member, or nil. The
// current context is preferred.
func (c *Contexts) ForURL(address string) *Context {
	current := c.Find(c.Current)
	if current != nil && sameURL(current.URL, address) {
		return current
	}
	if i := slices.IndexFunc(c.All, func(one Context) bool { return sameURL(one.URL, address) }); i >= 0 {
		return &c.All[i]
	}
	if current != nil && current.is(address) {
		return current
	}
	if i := slices.IndexFunc(c.All, func(one Context) bool { return one.is(address) }); i >= 0 {
		return &c.All[i]
	}
	return nil
}

// Put stores a context under its name and makes it the current one.
func (c *Contexts) Put(stored Context) {
	if existing := c.Find(stored.Name); existing != nil {
		*existing = stored
	} else {
		c.All = append(c.All, stored)
	}
	c.Current = stored.Name
}

// Remove removes a context.
func (c *Contexts) Remove(name string) {
	c.All = slices.DeleteFunc(c.All, func(one Context) bool { return one.Name == name })
	if c.Current == name {
		c.Current = ""
	}
}

// sameURL reports whether two URLs have the same scheme, host and port.
func sameURL(a, b string) bool {
	first, errA := origin(a)
	second, errB := origin(b)
	return errA == nil && errB == nil && first == second
}

// origin returns the scheme, the host and the port of a URL.
func origin(address string) (string, error) {
	parsed, err := url.Parse(address)
	if err != nil {
		return "", err
	}
	port := parsed.Port()
	switch {
	case port == "" && parsed.Scheme == "http":
		port = "80"
	case port == "" && parsed.Scheme == "https":
		port = "443"
	}
	return parsed.Scheme + "://" + net.JoinHostPort(strings.ToLower(parsed.Hostname()), port), nil
}
