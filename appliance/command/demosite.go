package command

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"landfall/appliance/config"
	"landfall/appliance/engine/operator"
	"landfall/appliance/settings"
	"landfall/appliance/simulate"
	"landfall/appliance/simulate/registry"
	"landfall/web/console"
)

// demoSite is the simulated site around the appliance: a bare site, whose images are in an archive
// that somebody carried in.
type demoSite struct {
	stick   string // folder with the archive
	release *registry.Pushed
	spokes  *simulate.Spokes // the APIs of installed clusters
	config  config.Config
}

// newDemoSite writes an archive of oc-mirror to a directory, and a configuration that serves it.
func newDemoSite(ctx context.Context, directory string) (*demoSite, error) {
	stick := filepath.Join(directory, "stick")
	if err := os.MkdirAll(stick, 0o700); err != nil {
		return nil, fmt.Errorf("create the directory for the demo's data: %w; choose another one with --data-dir", err)
	}
	// The time does not change, so that a later demo in the same directory has the same medium.
	archive := &registry.Archive{Written: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	release, err := archive.AddPayload(ctx, registry.Payload{})
	if err == nil {
		err = addCatalogs(ctx, archive, release.Version)
	}
	if err == nil {
		err = archive.WriteFile(filepath.Join(stick, "mirror_000001.tar"))
	}
	if err != nil {
		return nil, fmt.Errorf("write the simulated archive of oc-mirror: %w", err)
	}
	configured := config.Default()
	configured.TLS.Enabled, configured.Auth = false, config.AuthNone
	configured.DataDir = filepath.Join(directory, "data")
	configured.Registry.Listen, configured.Registry.TLS = "127.0.0.1:0", false
	configured.Registry.Media = []string{stick}
	configured.Egress.Allow = []string{"127.0.0.0/8", "::1"}
	configured.Kubernetes.Enabled, configured.Kubernetes.ImageSettles = true, time.Second
	spokes, err := simulate.NewSpokes(ctx, "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	configured.Joining.Addresses, configured.Joining.Interval, configured.Joining.GiveUp =
		[]string{"*=" + spokes.Addr()}, time.Second, time.Minute
	return &demoSite{stick, release, spokes, configured}, nil
}

// addCatalogs adds catalogs of all supported operators to an archive.
func addCatalogs(ctx context.Context, archive *registry.Archive, version string) error {
	packages := make(map[string][]registry.CatalogPackage)
	for _, o := range operator.All() {
		s := o.SubscriptionFor(version)
		index := operator.Index(s.Catalog)
		packages[index] = append(packages[index], registry.CatalogPackage{Name: s.Package, Channel: s.Channel,
			Images: o.Images, Held: true})
		for _, wanted := range o.Packages(version)[1:] {
			packages[index] = append(packages[index], registry.CatalogPackage{Name: wanted, Held: true})
		}
	}
	for _, index := range slices.Sorted(maps.Keys(packages)) {
		if err := archive.AddCatalog(ctx, registry.Catalog{Index: index, Version: minor(version),
			Packages: packages[index]}); err != nil {
			return err
		}
	}
	return nil
}

// awaitStick waits until the appliance can install what lies on the stick: the release, its live
// ISO and the mirror rules.
func awaitStick(ctx context.Context, api *client) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		var setup settings.Setup
		if err := api.call(ctx, http.MethodGet, console.SetupRoute, nil, &setup); err != nil {
			return fmt.Errorf("read what the site needs: %w", err)
		}
		missing := slices.IndexFunc(setup.Lines, func(l settings.Line) bool {
			return slices.Contains([]string{"release", "os-image", "mirror"}, l.ID) && l.State != settings.StateDone
		})
		if missing < 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the archive is not ready (%s): %w", setup.Lines[missing].Result, ctx.Err())
		case <-ticker.C:
		}
	}
}
