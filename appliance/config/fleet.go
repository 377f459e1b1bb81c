package config

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"time"

	"github.com/jonboulle/clockwork"

	"landfall/appliance/fleet/membership"
)

// Fleet configures a fleet: several machines with one state, whose log is in etcd. Without Etcd,
// the appliance is a single machine.
type Fleet struct {
	Etcd     []string      `mapstructure:"etcd" check:"url"`
	Prefix   string        `mapstructure:"prefix"`
	CAFile   string        `mapstructure:"ca_file" check:"file"`
	CertFile string        `mapstructure:"cert_file" check:"file"`
	KeyFile  string        `mapstructure:"key_file" check:"file"`
	Name     string        `mapstructure:"name"`
	URL      string        `mapstructure:"url" check:"url"`
	Takeover time.Duration `mapstructure:"takeover"`
	Copies   int           `mapstructure:"copies"`
	// VirtualIP is an address of the leader on Interface.
	VirtualIP string `mapstructure:"virtual_ip"`
	Interface string `mapstructure:"interface" check:"interface"`
}

// minTakeover is the shortest time after which another member takes over. etcd's leases have whole
// seconds.
const minTakeover = 3 * time.Second

// minLease is the shortest lease that etcd grants by default.
const minLease = 2 * time.Second

// Enabled reports whether the appliance is a member of a fleet.
func (f Fleet) Enabled() bool { return len(f.Etcd) > 0 }

// Options returns the options of the membership of a machine with URLs for hosts.
func (f Fleet) Options(of Config, urls []string, listening net.Addr, version string, clock clockwork.Clock,
	logger *slog.Logger) membership.Options {
	return membership.Options{Dir: of.DataDir, URL: of.memberURL(urls, listening), Version: version, Clock: clock,
		Logger: logger, Settings: membership.Settings{Etcd: f.Etcd, Prefix: f.Prefix, CAFile: f.CAFile,
			CertFile: f.CertFile, KeyFile: f.KeyFile, Name: f.Name, URL: f.URL, Lease: f.Lease()}}
}

// memberURL returns the first URL for hosts that is an address of this machine, or that of its
// first address if there is none: URLs for hosts may be those of a load balancer, which all members
// have.
func (c Config) memberURL(urls []string, listening net.Addr) string {
	c.URL = nil
	own, err := c.URLs(listening)
	if err != nil {
		return urls[0]
	}
	for _, url := range urls {
		if slices.Contains(own, url) {
			return url
		}
	}
	return own[0]
}

// Lease returns the time for which a leader may be silent. The rest of the time for a takeover is
// for the start of the next leader.
func (f Fleet) Lease() time.Duration { return max(f.Takeover-2*time.Second, minLease) }

// Check returns an error if a member can't have these keys. The error is a sentence.
func (f Fleet) Check(tls TLS) error {
	switch {
	case !tls.Enabled:
		return errors.New("this machine is a member of a fleet, but tls.enabled is false; members trust each other " +
			"by " +
			"certificates, so set tls.enabled to true")
	case (f.CertFile == "") != (f.KeyFile == ""):
		return errors.New("fleet.cert_file and fleet.key_file belong together; set both, or neither")
	case f.Copies < 0 || f.Copies == 1:
		return fmt.Errorf("fleet.copies is %d; set at least 2, so that a file survives the loss of a member, or 0 for "+
			"a copy on each member", f.Copies)
	case f.Takeover < minTakeover:
		return fmt.Errorf("fleet.takeover is %s; the shortest time is %s, because etcd counts it in seconds",
			f.Takeover, minTakeover)
	}
	return nil
}
