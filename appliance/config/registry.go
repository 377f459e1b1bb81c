package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
)

// Registry configures the appliance's own registry. It is off without Listen.
type Registry struct {
	Listen string   `mapstructure:"listen" check:"address"`
	Media  []string `mapstructure:"media" check:"path"`
	TLS    bool     `mapstructure:"tls"`
	Name   string   `mapstructure:"name" check:"host"`

	AnonymousPull bool  `mapstructure:"anonymous_pull"`
	Bytes         Bytes `mapstructure:"bytes"`
}

// Check returns an error for keys that contradict each other. The error is a sentence.
func (r Registry) Check(tls TLS) error {
	if r.Listen == "" {
		if len(r.Media) > 0 {
			return errors.New("registry.media is set, but registry.listen is not; set the address of the registry, " +
				"such " +
				"as --registry-listen 0.0.0.0:5000")
		}
		return nil
	}
	host, _, err := net.SplitHostPort(r.Listen)
	if err != nil {
		return fmt.Errorf("registry.listen is %q; use host:port", r.Listen)
	}
	address, err := netip.ParseAddr(host)
	loopback := host == "localhost" || err == nil && address.IsLoopback()
	switch {
	case !r.TLS && !loopback:
		return fmt.Errorf("registry.tls is false, but registry.listen (%s) can be reached from other machines; images "+
			"and passwords would pass the network in clear: set registry.tls to true, or listen on 127.0.0.1", r.Listen)
	case r.TLS && !tls.Enabled:
		return errors.New("registry.tls is true, but tls.enabled is false, so there is no certificate; set " +
			"tls.enabled " +
			"to true, or registry.tls to false with an address on the loopback")
	}
	return nil
}

// Names returns the names that the certificate of the registry needs besides those of the URLs.
func (r Registry) Names() []string {
	if r.Name == "" {
		return nil
	}
	return []string{r.Name}
}
