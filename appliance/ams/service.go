package ams

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jonboulle/clockwork"

	"landfall/appliance/ams/local"
	"landfall/appliance/sitekey"
	"landfall/appliance/tracing"
	"landfall/store"
)

// ServiceOptions configures a service.
type ServiceOptions struct {
	DB       *store.DB
	Clusters Clusters
	Key      *sitekey.Key
	Clock    clockwork.Clock
	Logger   *slog.Logger

	DataDir       string
	UserAgent     string
	URL, TokenURL string
	Proxy         string // URL; "" for the proxy of the environment
	CABundle      string // file with CA certificates besides the system's; "" for none
	Files         CredentialFiles
	Account       string // owner of new subscriptions; "" for the account of the credentials
	FinalStatus   string
	ByHand        bool          // connect only for the time that Connect allows
	CallInterval  time.Duration // average time between two calls
	Disabled      bool          // the configuration disables AMS; Run returns immediately
	// Fleet reports that several machines have the data. Only that which leads them runs a service.
	Fleet bool
}

// Service connects the appliance with AMS. It includes the credentials and the part of the AMS API
// that the site serves itself.
type Service struct {
	*Relay
	*CredentialStore
	Site *local.Site
}

// NewService returns a service. It makes no call before Run.
func NewService(options ServiceOptions) (*Service, error) {
	var extra []byte
	if options.CABundle != "" {
		var err error
		if extra, err = os.ReadFile(options.CABundle); err != nil {
			return nil, fmt.Errorf("read ams.ca_bundle: %w", err)
		}
	}
	transport, err := NewTransport(options.Proxy, extra, Limits{})
	if err != nil {
		return nil, err
	}
	credentials := NewCredentialStore(options.DB, options.DataDir, options.Files)
	metrics := NewMetrics()
	client := NewClient(ClientOptions{
		URL: options.URL, TokenURL: options.TokenURL, Transport: tracing.Transport(transport), Credentials: credentials,
		Rate: 1 / options.CallInterval.Seconds(), UserAgent: options.UserAgent,
		Clock: options.Clock, Logger: options.Logger, Watch: metrics.Called,
	})
	relay := New(Options{
		DB: options.DB, Clusters: options.Clusters, Client: client, URL: options.URL, Credentials: credentials,
		Clock: options.Clock, Logger: options.Logger, Account: options.Account, FinalStatus: options.FinalStatus,
		ByHand: options.ByHand, Machine: options.machine(), Key: options.Key, Metrics: metrics,
		Off: options.Disabled,
	})
	site, err := local.New(local.Options{
		DB: options.DB, Clock: options.Clock, Key: options.Key, Owner: relay.Owner,
	})
	if err != nil {
		return nil, err
	}
	return &Service{relay, credentials, site}, nil
}

// SetCredentials stores entered credentials and opens a new session with them. A site that connects
// only by hand opens it at the next manual connection. Empty credentials delete the stored ones.
func (s *Service) SetCredentials(ctx context.Context, secret Secret) error {
	if err := s.CredentialStore.SetCredentials(ctx, secret); err != nil {
		return err
	}
	s.renewSession("")
	return nil
}

// Run synchronizes AMS until the context ends. It returns immediately if the configuration disables
// AMS.
func (s *Service) Run(ctx context.Context) error {
	if s.Relay.options.Off {
		return nil
	}
	return s.Relay.Run(ctx)
}

// machine returns the ID of the machine that reports. It is "" in a fleet, whose members take over
// from each other.
func (o ServiceOptions) machine() string {
	if o.Fleet {
		return ""
	}
	return machineID(o.DataDir)
}

// machineID returns an ID of this machine and the data directory, or "" if the machine has no ID.
// Another ID shows that the data was copied.
func machineID(dataDir string) string {
	id, err := os.ReadFile("/etc/machine-id")
	if err != nil || strings.TrimSpace(string(id)) == "" {
		return ""
	}
	place, err := filepath.Abs(dataDir)
	if err != nil {
		place = dataDir
	}
	sum := sha256.Sum256([]byte(strings.TrimSpace(string(id)) + "\n" + place))
	return hex.EncodeToString(sum[:8])
}
