package appliance

import (
	"context"
	"errors"
	"slices"

	"landfall/appliance/hosted"
	"landfall/web"
	hostedapi "landfall/web/hosted"
	"landfall/web/operation"
)

// hostedClusters is the part for hosted clusters. nil is the disabled part.
type hostedClusters struct {
	*hosted.Service
	local *hostedapi.Local // nil without the ports for debugging
}

// openHosted opens the part for hosted clusters. It returns nil if the configuration disables it.
func (a *Appliance) openHosted(ctx context.Context) (*hostedClusters, error) {
	if !a.config.Hosted.Enabled {
		return nil, nil
	}
	service, err := hosted.Open(ctx, hosted.Options{DB: a.db, Settings: a.settings, Rules: a.rules, Key: a.siteKey,
		Connect: a.spokes.Open, Prove: a.proofs.ProveImages, Clock: a.clock, Logger: a.log, Engine: a.engine,
		Approved: a.approvals().Approved, URL: a.urls[0],
		Configured: slices.Contains(append([]string{a.settings.URL()}, a.config.URL...), a.urls[0]),
		Transport: hosted.Transport{Dir: a.config.DataDir,
			Main: a.address.String(), Address: a.config.Hosted.BrokerListen, Listen: a.inbound.Listen,
			Certificates: a.transport.Certificates()}, Interval: a.config.Joining.Interval})
	if err != nil {
		return nil, err
	}
	h := &hostedClusters{Service: service}
	if !a.config.Hosted.DebugListen {
		return h, nil
	}
	h.local, err = hostedapi.Listen(ctx, service, a.inbound, hostedapi.UsualPorts(), web.Options{Wrap: a.wrapLocal,
		Logger: a.log, Connections: a.inbound, ShutdownTimeout: a.config.Timeouts.Shutdown, Hosts: a.clients.hosts})
	return h, err
}

func (h *hostedClusters) operations(clusters hostedapi.Clusters) []operation.Operation {
	if h == nil {
		return hostedapi.DisabledOperations()
	}
	return hostedapi.Operations(h.Service, clusters)
}

// spelling returns the function that gives paths their usual spelling, or nil.
func (h *hostedClusters) spelling() func(string) string {
	if h == nil {
		return nil
	}
	return hostedapi.Spelling
}

func (h *hostedClusters) tasks() []task {
	switch {
	case h == nil:
		return nil
	case h.local == nil:
		return []task{h.Run}
	}
	return []task{h.Run, h.local.Run}
}

func (h *hostedClusters) close() error {
	if h == nil {
		return nil
	}
	return errors.Join(h.Service.Close(), h.local.Close())
}
