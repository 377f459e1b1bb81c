// Package rehearsal rehearses the installation of a cluster: all steps except for the boot of real
// machines. A rehearsal copies the cluster into an isolated appliance, installs it there with
// simulated hosts, and reports each step. The isolated appliance has its own data directory, which
// is removed at the end. It listens only on this machine and sends nothing to AMS.
package rehearsal

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/abi"
	"landfall/appliance/doctor"
	"landfall/appliance/egress"
	"landfall/appliance/engine"
	"landfall/appliance/fault"
	"landfall/appliance/mirror"
	"landfall/appliance/mirror/site"
	"landfall/appliance/osimage"
	"landfall/appliance/sentence"
)

const (
	// timeout limits a rehearsal. The longest step is openshift-install, which has its own
	// time-out.
	timeout = 20 * time.Minute
	// unchangedTimeout is the time after which simulated hosts that are not ready count as failed
	// if their state has not changed. They report all data within seconds.
	unchangedTimeout = 20 * time.Second
	// pollInterval is the time between two reads of the copied cluster.
	pollInterval = 100 * time.Millisecond
	// keptRehearsals is the number of reports in memory.
	keptRehearsals = 8
	// speed is the factor by which the simulated hosts are faster than real ones.
	speed = 1000
)

// Options are the inputs of a [Service].
type Options struct {
	Engine      *engine.Engine
	Directories Directories
	// MirrorImports lists the imported mirror rules of all levels, the oldest first.
	MirrorImports func() ([]site.NamedImport, error)
	// Diagnose runs the doctor's checks of the site for a cluster.
	Diagnose func(ctx context.Context, clusterID string) (*doctor.Report, error)
	// Start starts an isolated appliance with the given data directory.
	Start func(ctx context.Context, dataDir string, logger *slog.Logger) (*Appliance, error)
	// Dir is the parent of the data directories. It must contain nothing else.
	Dir    string
	Logger *slog.Logger
}

// Directories returns the hosts in the agent-based installer directories of clusters.
type Directories interface {
	// Hosts returns the hosts in the directory from which a cluster was created.
	Hosts(clusterID string) ([]abi.Host, error)
}

// Appliance is an isolated appliance.
type Appliance struct {
	Engine *engine.Engine
	Bases  *osimage.Library
	Prover engine.MirrorProver
	URL    string // URL on this machine
	// ImportMirror imports mirror rules.
	ImportMirror func(ctx context.Context, level mirror.Level, name string, rules *mirror.Import) error
	// ExpectHosts sets the names, roles and credentials of the hosts of an infra-env.
	ExpectHosts func(infraEnvID, clusterID string, hosts []abi.Host)
	// Egress decides which registries the simulated hosts may reach.
	Egress *egress.Rules
	// Run serves until the context ends.
	Run func(ctx context.Context) error
}

// Request is a request for a rehearsal. The numbers of hosts apply only if the cluster has no
// registered hosts, and neither a directory nor static networks describe them.
type Request struct {
	ControlPlanes int `json:"control_planes,omitempty"`
	Workers       int `json:"workers,omitempty"`
	Arbiters      int `json:"arbiters,omitempty"`
}

// Results of the steps of a rehearsal.
const (
	Proven  = "proven"
	Warning = "warning"
	Failed  = "failed"
)

// Rehearsal is the report of a rehearsal.
type Rehearsal struct {
	ID        string    `json:"id"`
	ClusterID string    `json:"cluster_id"`
	Cluster   string    `json:"cluster"`
	Release   string    `json:"release"`
	Shape     string    `json:"shape"` // the number of hosts, and the origin of the list of hosts
	State     string    `json:"state"` // running or done
	Doing     string    `json:"doing,omitempty"`
	Started   time.Time `json:"started"`
	Seconds   float64   `json:"seconds"`
	Passed    bool      `json:"passed"`
	Steps     []Step    `json:"steps"`
	// NotProven lists the properties that only an installation with real hosts can prove.
	NotProven []string `json:"not_proven"`
}

// Step is the report of one step of a rehearsal.
type Step struct {
	Name    string  `json:"name"`
	Result  string  `json:"verdict"`
	Seconds float64 `json:"seconds"`
	Message string  `json:"said"`
	Advice  string  `json:"do,omitempty"` // for the user, if the step failed
}

const (
	running = "running"
	done    = "done"
)

// Service rehearses installations, one at a time.
type Service struct {
	engine      *engine.Engine
	directories Directories
	options     Options
	log         *slog.Logger
	group       sync.WaitGroup
	ctx         context.Context // parent context of all rehearsals
	cancel      context.CancelFunc

	mu      sync.Mutex
	reports []*Rehearsal // the newest first
}

// New returns a service. It removes the data of rehearsals that a killed process left behind.
func New(options Options) (*Service, error) {
	if err := os.RemoveAll(options.Dir); err != nil {
		return nil, fmt.Errorf("remove the data of an earlier rehearsal: %w", err)
	}
	s := &Service{engine: options.Engine, directories: options.Directories, options: options, log: options.Logger}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s, nil
}

// Close cancels the running rehearsal and waits for its end.
func (s *Service) Close() {
	s.cancel()
	s.group.Wait()
}

// Start starts a rehearsal in the background and returns its report so far.
func (s *Service) Start(_ context.Context, clusterID string, request Request) (*Rehearsal, error) {
	cluster, err := s.engine.Cluster(clusterID)
	if err != nil {
		return nil, err
	}
	if status := *cluster.Status; status == models.ClusterStatusInstalled || status == models.ClusterStatusAddingHosts {
		return nil, fault.New(fault.Conflict,
			"Cluster %s is in the state %s, in which its installation cannot be rehearsed.",
			cluster.Name, status)
	}
	hosts, err := s.simulatedHosts(cluster, request)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.reports) > 0 && s.reports[0].State == running {
		return nil, fault.New(fault.Conflict, "A rehearsal of cluster %s is already running; wait until it has ended.",
			s.reports[0].Cluster)
	}
	report := &Rehearsal{
		ID: uuid.NewString(), ClusterID: clusterID, Cluster: cluster.Name, Release: cluster.OpenshiftVersion,
		State: running, Started: time.Now().UTC(),
		Shape: fmt.Sprintf("%s, by %s", sentence.Count(len(hosts.hosts), "host"), hosts.origin), Steps: []Step{},
		NotProven: []string{
			"that machines boot the image, their network interfaces, disks and firmware",
			"static networks on real interfaces",
			"the operators in the running cluster",
		},
	}
	s.reports = append([]*Rehearsal{report}, s.reports...)
	s.reports = s.reports[:min(len(s.reports), keptRehearsals)]
	s.group.Go(func() {
		ctx, cancel := context.WithTimeoutCause(s.ctx, timeout,
			fmt.Errorf("the rehearsal did not end within %s", timeout))
		defer cancel()
		r := &run{service: s, report: report, cluster: cluster, hosts: hosts,
			dir: filepath.Join(s.options.Dir, report.ID)}
		r.run(ctx)
	})
	return snapshot(report), nil
}

// Rehearsal returns the current report of a rehearsal.
func (s *Service) Rehearsal(clusterID, id string) (*Rehearsal, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, report := range s.reports {
		if report.ID == id && report.ClusterID == clusterID {
			return snapshot(report), nil
		}
	}
	return nil, fault.New(fault.NotFound,
		"The rehearsal %s of cluster %s does not exist; the appliance keeps the last %d reports until it restarts.",
		id, clusterID, keptRehearsals)
}

// snapshot returns a copy of a report.
func snapshot(report *Rehearsal) *Rehearsal {
	shown := *report
	shown.Steps = slices.Clone(report.Steps)
	if shown.State == running {
		shown.Seconds = time.Since(shown.Started).Seconds()
	}
	return &shown
}
