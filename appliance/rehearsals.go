package appliance

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"

	"landfall/appliance/architecture"
	"landfall/appliance/config"
	"landfall/appliance/doctor"
	"landfall/appliance/rehearsal"
)

// newRehearsals returns the service that rehearses installations of the appliance's clusters.
func (a *Appliance) newRehearsals() (*rehearsal.Service, error) {
	return rehearsal.New(rehearsal.Options{
		Engine: a.engine, Directories: a.abiHosts, MirrorImports: a.rules.Imports,
		Diagnose: func(ctx context.Context, clusterID string) (*doctor.Report, error) {
			return a.doctor.Diagnose(ctx, doctor.Request{ClusterID: clusterID})
		},
		Start: a.startIsolated, Dir: filepath.Join(a.config.DataDir, "rehearsals"), Logger: a.log,
	})
}

// startIsolated starts an appliance with the same configuration. It listens only on this machine
// and contacts only the site's registry.
func (a *Appliance) startIsolated(ctx context.Context, dataDir string,
	logger *slog.Logger) (*rehearsal.Appliance, error) {
	isolated := a.config.Isolated(dataDir)
	isolated.NTPSources, isolated.ReleaseImages = a.settings.NTPSources(), nil
	for _, image := range a.settings.Releases() {
		isolated.ReleaseImages = append(isolated.ReleaseImages, config.ReleaseImage{URL: image.URL,
			OpenshiftVersion: image.OpenshiftVersion, CPUArchitecture: image.CPUArchitecture,
			Default: image.Default, SupportLevel: image.SupportLevel})
	}
	images, err := a.images.List()
	if err != nil {
		return nil, err
	}
	isolated.OSImages = nil
	for _, image := range images {
		if image.Path != "" {
			isolated.OSImages = append(isolated.OSImages, config.OSImage{
				OpenshiftVersion: image.OpenshiftVersion,
				CPUArchitecture:  architecture.Of(image.CPUArchitecture).RPM(), Path: image.Path, SHA256: image.SHA256,
			})
		}
	}
	b, err := open(ctx, isolated, logger, a.version, a.clock, surroundings{site: a})
	if err != nil {
		return nil, err
	}
	if err := b.policy.Adopt(ctx, a.policy); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return &rehearsal.Appliance{
		Engine: b.engine, Bases: b.images, Prover: b.proofs, URL: b.LocalURL(), Run: b.Run,
		ImportMirror: b.mirror.Import, ExpectHosts: b.abiHosts.Expect, Egress: a.egress,
	}, nil
}
