package doctor

import (
	"fmt"
	"net/url"
	"strings"

	"golang.org/x/net/http/httpproxy"
)

// Proxy is the hosts' proxy; an empty field means none.
type Proxy struct {
	HTTP, HTTPS, No string
}

// checkProxies checks whether hosts would use the proxy for servers of the site. It must run after
// the checks of the registries, which find the token servers.
func (d *diagnosis) checkProxies() []Finding {
	if d.site.Proxy.HTTP == "" && d.site.Proxy.HTTPS == "" {
		return nil
	}
	config := httpproxy.Config{HTTPProxy: d.site.Proxy.HTTP, HTTPSProxy: d.site.Proxy.HTTPS, NoProxy: d.site.Proxy.No}
	proxyFor := config.ProxyFunc()
	var found []Finding
	check := func(address, subject string, statusIfProxied Status) {
		finding := Finding{Area: Proxies, Subject: subject, Status: Green, Check: "whether hosts use the proxy for " +
			address, Result: "no"}
		target, err := url.Parse(address)
		if err != nil || target.Host == "" {
			return
		}
		proxy, err := proxyFor(target)
		switch {
		case err != nil:
			finding.Status, finding.Result = Red, err.Error()
			finding.Advice = "Correct the proxy's URL."
		case proxy != nil:
			finding.Status, finding.Result = statusIfProxied, "yes, "+proxy.Redacted()
			finding.Advice = fmt.Sprintf("Add %s to no_proxy.", target.Hostname())
		}
		found = append(found, finding)
	}
	for _, host := range d.site.registryHosts() {
		check("https://"+host+"/v2/", "registry "+host, Red)
	}
	for _, realm := range d.tokenServers {
		check(realm.Scheme+"://"+realm.Host+"/", "token server "+realm.Host, Red)
	}
	for _, address := range d.site.DirectURLs {
		check(address, "the appliance", Red)
	}
	for _, network := range d.site.MachineNetworks {
		check("https://"+bracketed(network.Addr().Next().String())+":6443", "machine network "+network.String(), Amber)
	}
	if d.site.Cluster != "" && d.site.BaseDomain != "" {
		check("https://"+apiIntName+"."+d.site.Cluster+"."+d.site.BaseDomain+":6443", "the cluster's own names", Amber)
	}
	return found
}

// bracketed returns an address in the notation of URLs.
func bracketed(address string) string {
	if strings.Contains(address, ":") {
		return "[" + address + "]"
	}
	return address
}
