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
	isolated := isolatedConfig(a.config, dataDir)
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
	b, err := open(ctx, isolated, logger, a.version, a.clock, a)
	if err != nil {
		return nil, err
	}
	if err := b.policy.Adopt(ctx, a.policy); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return &rehearsal.Appliance{
		Engine: b.engine, Bases: b.images, Prover: b.proofs, URL: b.LocalURL(), Run: b.Run,
		ImportMirror: b.mirror.Import,
		ExpectHosts:  b.abiHosts.Expect, Egress: a.egress,
	}, nil
}

// isolatedConfig returns the site's configuration without all that listens outside this machine,
// contacts others, or writes outside the data directory.
func isolatedConfig(site config.Config, dataDir string) config.Config {
	isolated := site
	isolated.Listen, isolated.BootListen, isolated.URL, isolated.DataDir = "127.0.0.1:0", "", nil, dataDir
	isolated.TLS, isolated.Auth = config.TLS{}, config.AuthNone
	isolated.AMS, isolated.Kubernetes, isolated.Registry = config.AMS{}, config.Kubernetes{}, config.Registry{}
	isolated.Hosted, isolated.Site, isolated.Backup = config.Hosted{}, config.Site{}, config.Backup{}
	isolated.Replica = config.Replica{}
	isolated.Audit, isolated.Profiling = config.Audit{Bytes: site.Audit.Bytes}, config.Profiling{}
	isolated.Tracing = config.Tracing{}
	return isolated
}
