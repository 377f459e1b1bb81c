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

// proxies checks whether hosts would use a proxy for servers of the site. It runs when the token
// servers of the registries are known.
func (e *diagnosis) checkProxies() []Finding {
	if e.site.Proxy.HTTP == "" && e.site.Proxy.HTTPS == "" {
		return nil
	}
	config := httpproxy.Config{HTTPProxy: e.site.Proxy.HTTP, HTTPSProxy: e.site.Proxy.HTTPS, NoProxy: e.site.Proxy.No}
	through := config.ProxyFunc()
	var found []Finding
	look := func(address, what string, verdict Status) {
		finding := Finding{Area: Proxies, Subject: what, Status: Green, Check: "whether hosts ask the proxy for " +
			address, Result: "no"}
		target, err := url.Parse(address)
		if err != nil || target.Host == "" {
			return
		}
		proxy, err := through(target)
		switch {
		case err != nil:
			finding.Status, finding.Result = Red, err.Error()
			finding.Advice = "Correct the proxy's URL."
		case proxy != nil:
			finding.Status, finding.Result = verdict, "yes, "+proxy.Redacted()
			finding.Advice = fmt.Sprintf("Add %s to no_proxy.", target.Hostname())
		}
		found = append(found, finding)
	}
	for _, host := range e.site.registryHosts() {
		look("https://"+host+"/v2/", "registry "+host, Red)
	}
	for _, realm := range e.tokenServers {
		look(realm.Scheme+"://"+realm.Host+"/", "token server "+realm.Host, Red)
	}
	for _, address := range e.site.DirectURLs {
		look(address, "the appliance", Red)
	}
	for _, network := range e.site.MachineNetworks {
		look("https://"+bracketed(network.Addr().Next().String())+":6443", "machine network "+network.String(), Amber)
	}
	if e.site.Cluster != "" && e.site.BaseDomain != "" {
		look("https://"+apiIntName+"."+e.site.Cluster+"."+e.site.BaseDomain+":6443", "the cluster's own names", Amber)
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
