package config

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/jonboulle/clockwork"

	"landfall/appliance/architecture"
	"landfall/appliance/egress"
	"landfall/appliance/engine"
	"landfall/appliance/keyring"
	"landfall/appliance/mirror"
	"landfall/appliance/osimage"
	"landfall/appliance/registry"
	"landfall/appliance/registry/overlay"
	"landfall/appliance/release/trust"
	site "landfall/appliance/settings"
	"landfall/store"
)

const ntpPort = "123"

// Options returns how the data keys are sealed.
func (s Seal) Options(logger *slog.Logger) keyring.Options {
	return keyring.Options{
		With: keyring.Method(s.With), KeyFile: s.KeyFile, PassphraseFile: s.PassphraseFile,
		CredentialsDirectory: os.Getenv("CREDENTIALS_DIRECTORY"),
		TPMDevice:            s.TPMDevice, Logger: logger,
	}
}

// Outgoing returns the rules for requests that a person asked for. The servers that the
// configuration names are an administrator's word, so they are not checked.
func (c Config) Outgoing(configured *mirror.Rules, listening func() []net.Addr,
	registry func() net.Addr) (*egress.Rules, error) {
	var servers []string
	for _, image := range c.OSImages {
		if parsed, err := url.Parse(image.URL); err == nil && parsed.Host != "" {
			servers = append(servers, parsed.Host)
		}
	}
	for _, release := range c.ReleaseImages {
		if ref, err := name.ParseReference(release.URL); err == nil {
			servers = append(servers, ref.Context().RegistryStr())
		}
	}
	for _, rule := range configured.List() {
		for _, place := range rule.Mirrors {
			host, _, _ := strings.Cut(place.Location, "/")
			servers = append(servers, host)
		}
	}
	for _, source := range c.NTPSources {
		if _, _, err := net.SplitHostPort(source); err != nil {
			source = net.JoinHostPort(source, ntpPort)
		}
		servers = append(servers, source)
	}
	return egress.New(egress.Options{Allow: c.Egress.Allow, Deny: c.Egress.Deny, Configured: servers, Own: listening,
		Registry: registry})
}

// LiveISOs returns the live ISOs in os_images.
func (c Config) LiveISOs() []osimage.Configured {
	var images []osimage.Configured
	for _, image := range c.OSImages {
		images = append(images, osimage.Configured{
			Path: image.Path, URL: image.URL, Release: image.Release, OpenshiftVersion: image.OpenshiftVersion,
			CPUArchitecture: image.CPUArchitecture, SHA256: image.SHA256,
		})
	}
	return images
}

// RegistryDir returns the directory with pushed images and copies of media.
func (c Config) RegistryDir() string { return filepath.Join(c.DataDir, "registry") }

// RegistryOptions returns the options of the appliance's registry. shared is nil on a single
// machine.
func (c Config) RegistryOptions(db *store.DB, shared *overlay.Shared, clock clockwork.Clock,
	logger *slog.Logger) registry.Options {
	return registry.Options{DB: db, Media: c.Registry.Media, Dir: c.RegistryDir(), Bytes: int64(c.Registry.Bytes),
		Shared: shared, Clock: clock, Logger: logger}
}

// ReleasePolicy returns the part of the options of the release policy that the configuration has.
func (c Config) ReleasePolicy() (trust.Options, error) {
	keys, err := trust.ReadKeys(c.Releases.SigningKeys)
	if err != nil {
		return trust.Options{}, err
	}
	options := trust.Options{Keys: keys}
	for _, image := range c.ReleaseImages {
		options.Configured = append(options.Configured, image.URL)
	}
	return options, nil
}

// MirrorFiles returns the files with mirror rules.
func (c Config) MirrorFiles() mirror.Files {
	return mirror.Files{RegistriesConf: c.Mirror.RegistriesConf, MirrorSets: c.Mirror.IDMSFiles,
		CABundle: c.Mirror.CABundle}
}

// FixedSettings returns the settings of the site that can't be changed.
func (c Config) FixedSettings() site.Fixed {
	return site.Fixed{Releases: c.EngineReleases(), PullSecretFile: c.Mirror.PullSecret, NTPSources: c.NTPSources,
		URLs: c.URL}
}

// EngineReleases returns the releases in release_images.
func (c Config) EngineReleases() []engine.ReleaseImage {
	var list []engine.ReleaseImage
	for _, image := range c.ReleaseImages {
		list = append(list, engine.ReleaseImage{
			OpenshiftVersion: image.OpenshiftVersion, CPUArchitecture: architecture.Of(image.CPUArchitecture).API(),
			URL: image.URL, Default: image.Default, SupportLevel: image.SupportLevel,
		})
	}
	return list
}

// CheckURL checks a URL by which hosts reach the appliance, and returns it without a slash at its
// end. The error is a sentence.
func (c Config) CheckURL(text string) (string, error) {
	checked, err := readURL(text, "")
	if err != nil {
		return "", fmt.Errorf("the URL is %q; expected an http:// or https:// URL without a query, such as "+
			"https://192.0.2.10:8090", text)
	}
	return checked, c.TLS.checkURLs([]string{checked})
}

// PreferredURLs returns the URLs of the appliance, like [Config.URLs]. Unless the configuration has
// URLs, the preferred URL precedes those of this machine's addresses.
func (c Config) PreferredURLs(preferred string, listening net.Addr) ([]string, error) {
	urls, err := c.URLs(listening)
	switch {
	case len(c.URL) > 0 || preferred == "":
		return urls, err
	case err != nil:
		return []string{preferred}, nil
	}
	return append([]string{preferred}, slices.DeleteFunc(urls, func(u string) bool { return u == preferred })...), nil
}

// Write writes all keys with their values, one on each line.
func (c Config) Write(out io.Writer) error {
	values := reflect.ValueOf(c)
	for _, s := range settings() {
		value := values.FieldByIndex(s.index)
		text := valueText(value)
		if text == "" && !value.IsZero() {
			text = fmt.Sprintf("%+v", value.Interface())
		}
		if _, err := fmt.Fprintf(out, "%s: %s\n", s.key, text); err != nil {
			return err
		}
	}
	return nil
}
