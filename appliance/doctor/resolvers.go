package doctor

import (
	"fmt"
	"net"

	"github.com/miekg/dns"
)

// resolvConf is the file with this machine's DNS servers (resolv.conf(5)).
const resolvConf = "/etc/resolv.conf"

// SystemResolvers returns this machine's DNS servers, each "address:port", and its search domains.
// The site's hosts may use other servers; they report their own results.
func SystemResolvers() (resolvers, search []string, err error) {
	config, err := dns.ClientConfigFromFile(resolvConf)
	if err != nil {
		return nil, nil, fmt.Errorf("read the DNS servers of this machine: %w", err)
	}
	for _, server := range config.Servers {
		resolvers = append(resolvers, net.JoinHostPort(server, config.Port))
	}
	return resolvers, config.Search, nil
}
