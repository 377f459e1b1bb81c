package appliance

import (
	"context"
	"io"
	"time"

	"landfall/appliance/engine"
	"landfall/appliance/journal"
	"landfall/appliance/monitoring"
	"landfall/appliance/overview"
	"landfall/appliance/process"
	"landfall/appliance/supportarchive"
	"landfall/web/console"
	"landfall/web/operation"
)

// monitorOperations creates the monitor and returns its operations.
func (a *Appliance) monitorOperations() ([]operation.Operation, error) {
	a.overview = overview.NewReader(a.db, a.bmcs.Servers, a.usage, a.replica.State, a.backups.State, a.clock)
	options := monitoring.Options{Pulse: a.pulse, Draining: a.server.Draining(), Parts: monitoring.Parts{
		Version: a.version, Store: a.db, Usage: a.usage, Overview: a.overview,
		Certificates: a.transport.Certificates(), Clock: a.clock, Others: append(append(process.MetricCollectors(),
			a.ams, a.meter, a.registry.Metrics(), a.replica, a.backups, a.tracing), a.fleet.Metrics()...),
	}}
	options.Kubernetes = a.kubernetesReady()
	var err error
	if a.monitor, err = monitoring.New(options); err != nil {
		return nil, err
	}
	return append(console.MonitorOperations(a.monitor), console.SupportOperations(a.writeSupportArchive)...), nil
}

func (a *Appliance) writeSupportArchive(ctx context.Context, out io.Writer, at time.Time) error {
	return supportarchive.Sources{
		Version: a.version, DataDir: a.config.DataDir, Config: a.config.Write, Log: a.recent, Monitor: a.monitor,
		Overview: a.overview, Journals: a.journals(),
		Status: func(ctx context.Context) (any, error) { return a.status().Status(ctx) },
	}.Write(ctx, out, at)
}

func (a *Appliance) journals() journal.Service {
	return journal.Service{DB: a.db, Layout: engine.JournalLayout(), Key: a.siteKey, Log: a.recent, Version: a.version}
}

func (a *Appliance) status() console.SiteStatus {
	return console.SiteStatus{
		Version: a.version, URLs: a.urls, Releases: a.settings.Releases, OSImages: a.images,
		AuthorityFingerprint: a.transport.Fingerprint(), Protections: a.protection.Findings,
		Replica: a.replica.State,
	}
}
