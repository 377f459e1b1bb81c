package appliance

import (
	"net"
	"net/url"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"

	"landfall/appliance/config"
	"landfall/appliance/egress"
	"landfall/appliance/mirror"
)

const ntpPort = "123"

// newEgress returns the rules for requests that a person asked for. The servers that the
// configuration names are an administrator's word, so they are not checked.
func newEgress(config config.Config, configured *mirror.Rules, listening func() []net.Addr) (*egress.Rules, error) {
	var servers []string
	for _, image := range config.OSImages {
		if parsed, err := url.Parse(image.URL); err == nil && parsed.Host != "" {
			servers = append(servers, parsed.Host)
		}
	}
	for _, release := range config.ReleaseImages {
		if ref, err := name.ParseReference(release.URL); err == nil {
			servers = append(servers, ref.Context().RegistryStr())
		}
	}
	for _, rule := range configured.List() {
		for _, place := range rule.Mirrors {
			host, _, _ := strings.Cut(place.Location, "/")
			servers = append(servers, host)
		}
	}
	for _, source := range config.NTPSources {
		if _, _, err := net.SplitHostPort(source); err != nil {
			source = net.JoinHostPort(source, ntpPort)
		}
		servers = append(servers, source)
	}
	return egress.New(egress.Options{Allow: config.Egress.Allow, Deny: config.Egress.Deny, Configured: servers,
		Own: listening})
}

// listening returns the addresses at which the appliance listens.
func (a *Appliance) listening() []net.Addr {
	var addresses []net.Addr
	if a.address != nil {
		addresses = append(addresses, a.address)
	}
	if a.boot != nil {
		addresses = append(addresses, a.boot.Addr())
	}
	if a.kubernetes != nil && a.kubernetes.address != nil {
		addresses = append(addresses, a.kubernetes.address)
	}
	return addresses
}
