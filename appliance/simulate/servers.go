package simulate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"sync"

	"github.com/openshift/assisted-service/models"

	"landfall/ignition"
	"landfall/isogen"
)

// Servers contains machines whose power is controlled elsewhere, for example by simulated BMCs.
// They boot from a given disc. Machines that boot images of the same infra-env form one group. Set
// the fields before the first Boot.
type Servers struct {
	// Planned describes the machines, beginning with the machine that has the number First.
	Planned []Planned
	First   int
	// Speed, Faults, Network and Spokes have the same meaning as in HostGroup.
	Speed   float64
	Faults  Faults
	Network netip.Prefix
	Spokes  *Spokes
	Logger  *slog.Logger // nil discards the log

	mu       sync.Mutex
	groups   map[string]*serverGroup // by infra-env
	last     map[int]*serverGroup    // group of a machine's last boot
	lifetime context.Context
	end      context.CancelFunc
}

// serverGroup is a group whose hosts boot individually.
type serverGroup struct {
	*HostGroup
	hosts map[int]*host
	up    map[int]*sync.Mutex // held while the machine runs
}

// Boot runs the machine with the given number from the disc at path until the context ends or the
// machine is installed. It returns an error for a disc without a discovery config.
func (s *Servers) Boot(ctx context.Context, number int, path string) error {
	inserted, err := readDisc(path)
	if err != nil {
		return err
	}
	group, err := s.group(inserted)
	if err != nil {
		return err
	}
	h := group.hosts[number]
	if h == nil {
		return fmt.Errorf("simulated server %d does not exist", number)
	}
	s.mu.Lock()
	s.last[number] = group
	s.mu.Unlock()
	group.up[number].Lock()
	defer group.up[number].Unlock()
	h.mu.Lock()
	h.disc = inserted
	h.mu.Unlock()
	return group.runDiscovery(ctx, h, nil, fromImage)
}

// FromDisk runs the machine with the given number from its disk. It does nothing if the machine is
// not installed.
func (s *Servers) FromDisk(ctx context.Context, number int) error {
	s.mu.Lock()
	group := s.last[number]
	s.mu.Unlock()
	if group == nil {
		return nil
	}
	group.up[number].Lock()
	defer group.up[number].Unlock()
	h := group.hosts[number]
	recorded, up, err := h.resume(context.WithValue(ctx, linkKey{}, h.link))
	if err != nil || up != fromDisk {
		return err
	}
	return group.runDiscovery(ctx, h, recorded, fromDisk)
}

func (c *serverGroup) runDiscovery(ctx context.Context, h *host, recorded *models.Host, up medium) error {
	c.mu.Lock()
	c.pending++
	c.mu.Unlock()
	err := h.runFrom(context.WithValue(ctx, linkKey{}, h.link), recorded, up)
	c.finish(h, err)
	return err
}

// Close ends the controllers of the machines' clusters.
func (s *Servers) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.end != nil {
		s.end()
	}
	for _, group := range s.groups {
		group.controllers.Wait()
	}
}

func (s *Servers) group(disc *media) (*serverGroup, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lifetime == nil {
		s.lifetime, s.end = context.WithCancel(context.Background())
		s.groups, s.last = map[string]*serverGroup{}, map[int]*serverGroup{}
	}
	id := disc.config.InfraEnvID
	if existing := s.groups[id]; existing != nil {
		return existing, nil
	}
	group := &serverGroup{
		HostGroup: &HostGroup{
			URL: disc.config.ServiceURL, InfraEnvID: id, Count: len(s.Planned), First: s.First, Planned: s.Planned,
			Speed: s.Speed, Faults: s.Faults,
			Network: s.Network, Spokes: s.Spokes, Logger: s.Logger, KeepFailed: true,
		},
		hosts: map[int]*host{}, up: map[int]*sync.Mutex{},
	}
	if err := group.prepare(); err != nil {
		return nil, err
	}
	hosts, err := group.newHosts()
	if err != nil {
		return nil, err
	}
	group.lifetime = s.lifetime
	for _, h := range hosts {
		group.hosts[h.machine.number], group.up[h.machine.number] = h, new(sync.Mutex)
	}
	s.groups[id] = group
	return group, nil
}

// readDisc reads the config from a disc.
func readDisc(path string) (_ *media, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the disc: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("read the disc: %w", err)
	}
	payload, err := isogen.Embedded(file, info.Size())
	if err != nil {
		return nil, fmt.Errorf("the disc is not a discovery image: %w", err)
	}
	config, err := ignition.ReadDiscovery(payload.Ignition)
	if err != nil {
		return nil, fmt.Errorf("the disc is not a discovery image: %w", err)
	}
	return &media{config: config}, nil
}
