// Package rehearsal rehearses the installation of a cluster: every step but the boot of real
// machines. A rehearsal copies the cluster into an isolated appliance, lets simulated hosts install
// it there, and reports each step. The isolated appliance has a data directory of its own, which is
// removed afterwards, listens on this machine alone and sends nothing to AMS.
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
	"landfall/appliance/engine"
	"landfall/appliance/fault"
	"landfall/appliance/mirror"
	"landfall/appliance/mirror/site"
	"landfall/appliance/osimage"
)

const (
	// timeout bounds a rehearsal. Its longest step is openshift-install, which has a time-out of
	// its own.
	timeout = 20 * time.Minute
	// unchangedTimeout is the time after which simulated hosts that are not ready, and whose state
	// has not changed, count as failed. They report everything within seconds.
	unchangedTimeout = 20 * time.Second
	// pollInterval is the time between two reads of the copied cluster.
	pollInterval = 100 * time.Millisecond
	// keptRehearsals is the number of rehearsals that are kept in memory.
	keptRehearsals = 8
	// speed divides the waiting times of the simulated hosts.
	speed = 1000
)

// Options are the inputs of a [Service].
type Options struct {
	Engine      *engine.Engine
	Directories Directories
	// MirrorImports lists the imported mirror rules of all levels, the oldest first.
	MirrorImports func() ([]site.NamedImport, error)
	// Examine lets the doctor examine the site for a cluster.
	Examine func(ctx context.Context, clusterID string) (*doctor.Report, error)
	// Start starts an isolated appliance with the given data directory.
	Start func(ctx context.Context, dataDir string, logger *slog.Logger) (*Appliance, error)
	// Dir is the parent of the data directories. It must not be used for anything else.
	Dir    string
	Logger *slog.Logger
}

// Directories has the hosts in the agent-based installer directories of clusters.
type Directories interface {
	// Hosts returns the hosts in the directory from which a cluster was created.
	Hosts(clusterID string) ([]abi.Host, error)
}

// Appliance is an isolated appliance.
type Appliance struct {
	Engine *engine.Engine
	Bases  *osimage.Library
	Prover engine.MirrorProver
	URL    string // on this machine
	// ImportMirror imports mirror rules.
	ImportMirror func(ctx context.Context, level mirror.Level, name string, rules *mirror.Import) error
	// ExpectHosts sets the names, roles and credentials of the hosts of an infra-env.
	ExpectHosts func(infraEnvID, clusterID string, hosts []abi.Host)
	// Run serves until the context ends.
	Run func(ctx context.Context) error
}

// Request is a request for a rehearsal. It has the number of hosts, in case neither the hosts have
// reported nor a directory or static networks describe them.
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
	Shape     string    `json:"shape"` // the number of hosts, and the origin of their list
	State     string    `json:"state"` // running or done
	Doing     string    `json:"doing,omitempty"`
	Started   time.Time `json:"started"`
	Seconds   float64   `json:"seconds"`
	Passed    bool      `json:"passed"`
	Steps     []Step    `json:"steps"`
	// NotProven lists what only real hosts can prove.
	NotProven []string `json:"not_proven"`
}

// Step is the report of one step of a rehearsal.
type Step struct {
	Name    string  `json:"name"`
	Result  string  `json:"verdict"`
	Seconds float64 `json:"seconds"`
	Message string  `json:"said"`
	Advice  string  `json:"do,omitempty"` // for the person, if the step failed
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
	ctx         context.Context // of all rehearsals
	cancel      context.CancelFunc

	mu      sync.Mutex
	reports []*Rehearsal // the newest first
}

// New returns a service. It removes the data of rehearsals that a killed process left behind.
func New(options Options) (*Service, error) {
	if err := os.RemoveAll(options.Dir); err != nil {
		return nil, fmt.Errorf("remove the remains of a rehearsal: %w", err)
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
		return nil, fault.New(fault.Conflict, "Cluster %s is %s; its installation can't be rehearsed.",
			cluster.Name, status)
	}
	hosts, err := s.simulatedHosts(cluster, request)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.reports) > 0 && s.reports[0].State == running {
		return nil, fault.New(fault.Conflict, "A rehearsal of cluster %s is under way; wait for its end.",
			s.reports[0].Cluster)
	}
	report := &Rehearsal{
		ID: uuid.NewString(), ClusterID: clusterID, Cluster: cluster.Name, Release: cluster.OpenshiftVersion,
		State: running, Started: time.Now().UTC(),
		Shape: fmt.Sprintf("%s, by %s", plural(len(hosts.hosts), "host"), hosts.origin), Steps: []Step{},
		NotProven: []string{
			"that machines boot the image, their cards, disks and firmware", "static networks on real cards",
			"what operators do in the running cluster",
		},
	}
	s.reports = append([]*Rehearsal{report}, s.reports...)
	s.reports = s.reports[:min(len(s.reports), keptRehearsals)]
	s.group.Go(func() {
		ctx, cancel := context.WithTimeoutCause(s.ctx, timeout,
			fmt.Errorf("the rehearsal was not done after %s", timeout))
		defer cancel()
		r := &run{service: s, report: report, cluster: cluster, hosts: hosts,
			dir: filepath.Join(s.options.Dir, report.ID)}
		r.run(ctx)
	})
	return snapshot(report), nil
}

// Rehearsal returns the present report of a rehearsal.
func (s *Service) Rehearsal(clusterID, id string) (*Rehearsal, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, report := range s.reports {
		if report.ID == id && report.ClusterID == clusterID {
			return snapshot(report), nil
		}
	}
	return nil, fault.New(fault.NotFound, "There is no rehearsal %s of cluster %s; the last %d since the start of the "+
		"appliance are kept.", id, clusterID, keptRehearsals)
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

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
