package appliance

import (
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/jonboulle/clockwork"

	"landfall/appliance/config"
	"landfall/appliance/egress"
	"landfall/appliance/engine/view"
	"landfall/appliance/mirror/site"
	"landfall/appliance/osimage"
	"landfall/appliance/release"
	"landfall/appliance/release/trust"
	"landfall/appliance/sitekey"
	"landfall/store"
)

// newOSImages opens the base images of a configuration.
func newOSImages(config config.Config, offered release.Offered, rules *site.Rules, releases *release.Library,
	users func() ([]osimage.User, error), sealed *sitekey.Box, shared *osimage.Shared, outgoing *egress.Rules,
	clock clockwork.Clock, logger *slog.Logger) (*osimage.Library, error) {
	transport, err := osimage.NewTransport(config.OSImageProxy, rules.CABundle, outgoing)
	if err != nil {
		return nil, fmt.Errorf("read os_image_proxy: %w", err)
	}
	return osimage.New(osimage.Options{
		Dir: filepath.Join(config.DataDir, "os-images"), Images: config.LiveISOs(),
		MaxBytes:  int64(config.Limits.OSImageBytes),
		Transport: transport, FetchRelease: osimage.Payloads{Releases: releases,
			Known: offered}.Fetch,
		Users: users, Secrets: sealed, CheckURL: outgoing.CheckURL,
		Shared: shared, Clock: clock, Logger: logger,
	})
}

// infraEnvUsers returns a function that lists the OS images that infra-envs need.
func infraEnvUsers(db *store.DB) func() ([]osimage.User, error) {
	return func() ([]osimage.User, error) {
		envs, err := view.InfraEnvs(db, "")
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

// newReleasePolicy returns the policy that decides which releases may be used.
func newReleasePolicy(config config.Config, rules *site.Rules, db *store.DB, media trust.Media) (*trust.Policy,
	error) {
	keys, err := trust.ReadKeys(config.Releases.SigningKeys)
	if err != nil {
		return nil, err
	}
	options := trust.Options{DB: db, Keys: keys, Signatures: rules.SignaturesOf, Signed: rules.Signed,
		Sigstore: rules.Sigstore, Resolve: rules.Digest, Media: media}
	for _, image := range config.ReleaseImages {
		options.Configured = append(options.Configured, image.URL)
	}
	return trust.New(options)
}
