// Package hosted is the part of an appliance for hosted clusters: control planes that run as pods
// on a management cluster. It composes the packages below it.
//
//	arm           the resource model of the resource provider
//	record        the rows of hosted clusters
//	controlplane  manifests for HyperShift, and the reports about them
//	provider      the resource provider: resources, operations, bundles, states
//	bundle        the bundles for management clusters
//	search        the search languages of Clusters Service and Maestro
//	cloudevent    the events of work agents
//	broker        the MQTT broker to which work agents connect
//	maestro       delivers bundles, stores statuses, holds what contradicts the rows
//	workers       offers hosts of the appliance to node pools, and follows the pools' choice
//
// Design: docs/design.md#hosted-control-planes.
package hosted

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/jonboulle/clockwork"
	"golang.org/x/sync/errgroup"

	"landfall/appliance/engine"
	"landfall/appliance/hosted/arm"
	"landfall/appliance/hosted/broker"
	"landfall/appliance/hosted/controlplane"
	"landfall/appliance/hosted/maestro"
	"landfall/appliance/hosted/provider"
	"landfall/appliance/hosted/workers"
	"landfall/appliance/kube/spoke"
	"landfall/appliance/mirror"
	"landfall/appliance/mirror/site"
	"landfall/appliance/settings"
	"landfall/appliance/sitekey"
	"landfall/store"
)

// secrets is the purpose with which the site's key seals the secrets of hosted clusters.
const secrets sitekey.Purpose = "landfall hosted clusters"

// Options configures Open.
type Options struct {
	DB       *store.DB
	Settings *settings.Site
	Rules    *site.Rules
	Key      *sitekey.Key
	Clock    clockwork.Clock
	Logger   *slog.Logger
	// Connect opens the API of a cluster that the appliance installed. Prove checks that the mirror
	// has the images of a release.
	Connect func(clusterID string) (*spoke.Client, error)
	Prove   func(context.Context, engine.InstallSource) (engine.MirrorProof, error)
	// Engine has the hosts that become workers. Approved returns which of them may be installed.
	// URL is the base URL of the appliance's API. Configured is set if a person chose it; otherwise
	// it is that of an address of this machine.
	Engine     *engine.Engine
	Interval   time.Duration // between reads of management clusters that have such hosts; 0: 10 seconds
	Approved   func() (map[string]bool, error)
	URL        string
	Configured bool
	// Transport configures the connection to management clusters.
	Transport Transport
}

// Service is the part for hosted clusters.
type Service struct {
	Provider    *provider.Service
	Maestro     *maestro.Service
	Workers     *workers.Service
	Credentials *broker.Credentials
	Broker      *broker.Broker // nil without TLS
	Roots       []byte         // PEM: the certificates with which agents verify the broker

	host       string // of the appliance's URL
	configured bool   // a person chose the appliance's URL
	taken      bool   // the broker's default port is taken, and it has another one until the next start
	connect    func(clusterID string) (*spoke.Client, error)
	prove      func(context.Context, engine.InstallSource) (engine.MirrorProof, error)
}

// Open returns the part for hosted clusters.
func Open(ctx context.Context, options Options) (*Service, error) {
	box, err := options.Key.Box(secrets, nil)
	if err != nil {
		return nil, err
	}
	address, err := url.Parse(options.URL)
	if err != nil {
		return nil, fmt.Errorf("read the URL of the appliance: %w", err)
	}
	s := &Service{host: address.Hostname(), configured: options.Configured, connect: options.Connect,
		prove: options.Prove}
	s.Workers = workers.New(workers.Options{DB: options.DB, Engine: options.Engine, Connect: options.Connect,
		Approved: options.Approved, URL: options.URL, Interval: options.Interval, Clock: options.Clock,
		Logger: options.Logger})
	if err := s.openTransport(ctx, options); err != nil {
		return nil, err
	}
	if s.Provider, err = provider.Open(ctx, provider.Options{DB: options.DB,
		Site: inputs{options.Settings, options.Rules}, Secrets: box, Connected: s.connected, ClockWrong: s.clockWrong,
		Clock: options.Clock, Logger: options.Logger}); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if err := s.logBrokerProblems(options.Logger); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Close closes the broker's listener if Run was not called.
func (s *Service) Close() error {
	if s.Broker == nil {
		return nil
	}
	return s.Broker.Close()
}

// Run exchanges bundles and reports with management clusters until the context ends.
func (s *Service) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.Provider.Run(ctx) })
	group.Go(func() error { return s.Maestro.Run(ctx) })
	group.Go(func() error { return s.Workers.Run(ctx) })
	if s.Broker != nil {
		group.Go(func() error { return s.Broker.Run(ctx) })
	}
	return group.Wait()
}

// inputs implements provider.Site with the settings and the mirror rules of the site.
type inputs struct {
	settings *settings.Site
	rules    *site.Rules
}

// Releases implements provider.Site. Control planes run on x86_64.
func (s inputs) Releases() (all []provider.Release) {
	for _, r := range s.settings.Releases() {
		if r.CPUArchitecture == "x86_64" || r.CPUArchitecture == "multi" {
			all = append(all, provider.Release{Version: r.OpenshiftVersion, Image: r.URL, Default: r.Default})
		}
	}
	return all
}

// HostedSite implements provider.Site.
func (s inputs) HostedSite() (found controlplane.Site, err error) {
	if found.PullSecret, err = s.settings.PullSecret(); err != nil {
		return found, err
	}
	found.SSHPublicKey = s.settings.SSHPublicKey()
	rules := s.rules.At(mirror.Level{})
	found.CABundle = string(rules.CABundle())
	for _, source := range rules.ImageDigestSources() {
		if !strings.HasPrefix(source.Source, "*") && len(source.Mirrors) > 0 {
			found.Mirrors = append(found.Mirrors, arm.ImageMirror{Source: source.Source, Mirrors: source.Mirrors})
		}
	}
	return found, nil
}
