package doctor

import (
	"fmt"
	"net"

	"github.com/miekg/dns"
)

// resolvConf is where a machine says which DNS servers it asks (resolv.conf(5)).
const resolvConf = "/etc/resolv.conf"

// SystemResolvers returns the DNS servers that this machine asks, each "address:port", and the
// domains that it tries unfinished names in. A site's hosts may ask others; they say themselves
// what they find.
func SystemResolvers() (resolvers, search []string, err error) {
	config, err := dns.ClientConfigFromFile(resolvConf)
	if err != nil {
		return nil, nil, fmt.Errorf("read which DNS servers this machine asks: %w", err)
	}
	for _, server := range config.Servers {
		resolvers = append(resolvers, net.JoinHostPort(server, config.Port))
	}
	return resolvers, config.Search, nil
}
