package appliance

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"landfall/appliance/config"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/jonboulle/clockwork"

	"landfall/appliance/engine"
	"landfall/appliance/mirror"
	"landfall/appliance/osimage"
	"landfall/appliance/release"
	"landfall/appliance/sitekey"
	"landfall/store"
	"landfall/web/console"
)

// osImages are the base images with what the rest of the appliance asks of them.
type osImages struct{ *osimage.Library }

// states returns the states of the base images in the status' words; List has all there is to say.
func (o *osImages) states() ([]console.OSImage, error) {
	images, err := o.List()
	if err != nil {
		return nil, err
	}
	states := make([]console.OSImage, 0, len(images))
	for _, image := range images {
		state := console.OSImage{OpenshiftVersion: image.OpenshiftVersion, CPUArchitecture: image.CPUArchitecture,
			State: "ready", Message: image.Message}
		switch image.State {
		case osimage.StateBad:
			state.State = "failed"
		case osimage.StateWaiting, osimage.StateDownloading:
			state.State, state.Message = "fetching", image.Progress()
		}
		states = append(states, state)
	}
	return states, nil
}

// newOSImages opens the base images of a configuration.
func newOSImages(config config.Config, site *siteMirror, releases *release.Library, users func() ([]osimage.User, error),
	sealed *sitekey.Box, logger *slog.Logger) (*osImages, error) {
	var images []osimage.Configured
	for _, image := range config.OSImages {
		images = append(images, osimage.Configured{
			Path: image.Path, URL: image.URL, Release: image.Release, OpenshiftVersion: image.OpenshiftVersion,
			CPUArchitecture: image.CPUArchitecture, SHA256: image.SHA256,
		})
	}
	proxy := http.ProxyFromEnvironment
	if config.OSImageProxy != "" {
		address, err := url.Parse(config.OSImageProxy)
		if err != nil {
			return nil, fmt.Errorf("read os_image_proxy: %w", err)
		}
		proxy = http.ProxyURL(address)
	}
	fetcher := releaseFetcher{releases: releases, known: config.ReleaseImages, secretFile: config.Mirror.PullSecret}
	library, err := osimage.New(osimage.Options{
		Dir: filepath.Join(config.DataDir, "os-images"), Images: images, MaxBytes: int64(config.Limits.OSImageBytes),
		Transport: &trustingTransport{bundle: site.CABundle,
			make: func(bundle []byte) *http.Transport { return siteTransport(bundle, proxy) }},
		FetchRelease: fetcher.fetch, Users: users, Secrets: sealed,
		Clock: clockwork.NewRealClock(), Logger: logger,
	})
	if err != nil {
		return nil, err
	}
	return &osImages{library}, nil
}

// siteTransport speaks with the site's web servers: it trusts the system's CAs and the bundle.
func siteTransport(bundle []byte, proxy func(*http.Request) (*url.URL, error)) *http.Transport {
	pool, err := x509.SystemCertPool()
	if err != nil { // a bare container has none
		pool = x509.NewCertPool()
	}
	pool.AppendCertsFromPEM(bundle)
	const setUp, header = 10 * time.Second, 30 * time.Second
	return &http.Transport{
		Proxy: proxy, DialContext: (&net.Dialer{Timeout: setUp}).DialContext, TLSHandshakeTimeout: setUp,
		ResponseHeaderTimeout: header,
		TLSClientConfig:       &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true, IdleConnTimeout: time.Minute,
		DisableCompression: true,
	}
}

// infraEnvUsers returns a function that lists the OS images that infra-envs need.
func infraEnvUsers(db *store.DB) func() ([]osimage.User, error) {
	return func() ([]osimage.User, error) {
		envs, err := engine.InfraEnvs(db, "")
		if err != nil {
			return nil, err
		}
		users := make([]osimage.User, 0, len(envs))
		for _, env := range envs {
			users = append(users, osimage.User{Name: *env.Name, OpenshiftVersion: env.OpenshiftVersion,
				CPUArchitecture: env.CPUArchitecture})
		}
		return users, nil
	}
}

// releaseFetcher takes live ISOs out of release payloads.
type releaseFetcher struct {
	releases   *release.Library
	known      []config.ReleaseImage
	secretFile string
}

func (f releaseFetcher) fetch(ctx context.Context, wanted osimage.Release, begin func(version string,
	size int64) (io.Writer, error)) (string, error) {
	pullSpec, err := f.pullSpec(wanted)
	if err != nil {
		return "", err
	}
	secret, err := f.secret(wanted.PullSecret)
	if err != nil {
		return "", err
	}
	payload, err := f.releases.Payload(ctx, pullSpec, wanted.Architecture, secret)
	if err != nil {
		return "", err
	}
	return f.releases.LiveISO(ctx, payload, secret, func(size int64) (io.Writer,
		error) {
		return begin(payload.Version, size)
	})
}

// pullSpec finds the release image that is meant: by its pull spec, its version, or the last of a
// minor version that the configuration lists.
func (f releaseFetcher) pullSpec(wanted osimage.Release) (string, error) {
	if _, err := name.ParseReference(wanted.Name, name.StrictValidation); err == nil {
		return wanted.Name, nil
	}
	version, found := wanted.Name, ""
	if version == "" {
		version = wanted.Version
	}
	for _, image := range f.known {
		if arch := rpmArchitecture(image.CPUArchitecture); arch != wanted.Architecture && arch != "multi" {
			continue
		}
		if image.OpenshiftVersion == version {
			return image.URL, nil
		}
		if osimage.Minor(image.OpenshiftVersion) == version {
			found = image.URL
		}
	}
	if found == "" {
		return "",
			&osimage.ContentError{Problem: fmt.Sprintf("there is no release %s for %s under release_images; add it "+
				"there, or give the pull spec of its release image", version, wanted.Architecture)}
	}
	return found, nil
}

// secret is the pull secret that was given, or the appliance's own; nobody's if there is none.
func (f releaseFetcher) secret(given string) (authn.Keychain, error) {
	if given == "" && f.secretFile != "" {
		data, err := os.ReadFile(f.secretFile)
		if err != nil {
			return nil, fmt.Errorf("read mirror.pull_secret: %w", err)
		}
		given = string(data)
	}
	if given == "" {
		return nil, nil
	}
	secret, err := mirror.ParsePullSecret(given)
	if err != nil {
		return nil, &osimage.ContentError{Problem: err.Error()}
	}
	return secret, nil
}
