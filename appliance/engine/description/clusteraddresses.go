package description

import (
	"crypto/x509"
	"encoding/base64"
	"net/netip"
	"net/url"
	"strings"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/network"
)

// ignitionEndpointField is the field ignition_endpoint. A request changes only the parts that it
// has. An empty text clears a part.
func ignitionEndpointField() Field[Cluster] {
	f := value("IgnitionEndpoint", func(d *Cluster) **models.IgnitionEndpoint { return &d.API.IgnitionEndpoint })
	f.set = func(d *Cluster, value any) error {
		requested := value.(*models.IgnitionEndpoint)
		var merged models.IgnitionEndpoint
		if d.API.IgnitionEndpoint != nil {
			merged = *d.API.IgnitionEndpoint
		}
		setPart(&merged.URL, requested.URL)
		setPart(&merged.CaCertificate, requested.CaCertificate)
		d.API.IgnitionEndpoint = &merged
		if merged.URL == nil && merged.CaCertificate == nil {
			d.API.IgnitionEndpoint = nil
		}
		return checkIgnitionEndpoint(requested)
	}
	return f
}

// setPart changes a text of an object. A nil text changes nothing, and an empty text clears it.
func setPart(held **string, requested *string) {
	switch {
	case requested == nil:
	case *requested == "":
		*held = nil
	default:
		*held = requested
	}
}

func checkIgnitionEndpoint(endpoint *models.IgnitionEndpoint) error {
	if root := conv.Value(endpoint.URL); root != "" && !isHTTP(root) {
		return invalid("The URL of the ignition endpoint %q is not a URL, such as "+
			"https://ignition.example.com:22623/config.", root)
	}
	if text := conv.Value(endpoint.CaCertificate); text != "" {
		certificates, err := base64.StdEncoding.DecodeString(text)
		if err != nil || !x509.NewCertPool().AppendCertsFromPEM(certificates) {
			return invalid("The CA certificate of the ignition endpoint is not a PEM certificate in base64.")
		}
	}
	return nil
}

// isHTTP reports whether a text is a URL of HTTP or HTTPS with a host.
func isHTTP(text string) bool {
	parsed, err := url.Parse(text)
	return err == nil && parsed.Host != "" && (parsed.Scheme == "http" || parsed.Scheme == "https")
}

// apiAddressField is the field api_vip_dns_name: the address at which joining hosts reach the API
// of an installed cluster.
func apiAddressField() Field[Cluster] {
	f := pointer("APIVipDNSName", func(d *Cluster) **string { return &d.API.APIVipDNSName })
	set := f.set
	f.set = func(d *Cluster, value any) error {
		if conv.Value(d.API.Kind) != models.ClusterKindAddHostsCluster {
			return invalid("Cluster %s is not installed yet, so it has no address for joining hosts; leave "+
				"api_vip_dns_name out.", d.API.Name)
		}
		address := strings.TrimSpace(value.(string))
		if address != "" {
			if err := checkAPIAddress(address); err != nil {
				return err
			}
		}
		return set(d, address)
	}
	return f
}

// checkAPIAddress rejects a text that is neither a DNS name nor an IP address.
func checkAPIAddress(address string) error {
	if _, err := netip.ParseAddr(address); err == nil || network.CheckBaseDomain(address) == "" {
		return nil
	}
	return invalid("The address of the cluster's API %q is neither a DNS name nor an IP address.", address)
}

// loadBalancerField is the field load_balancer. A request without a type changes nothing.
func loadBalancerField() Field[Cluster] {
	f := value("LoadBalancer", func(d *Cluster) **models.LoadBalancer { return &d.API.LoadBalancer })
	set := f.set
	f.set = func(d *Cluster, value any) error {
		if value.(*models.LoadBalancer).Type == "" {
			return nil
		}
		return set(d, value)
	}
	return f
}
