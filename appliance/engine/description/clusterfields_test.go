package description_test

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"strconv"
	"testing"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/engine/description"
	"landfall/appliance/fault"
)

const tangServers = `[{"url":"http://tang.example.com:7500","thumbprint":"PLjNyRdGw03zlRoGjQYMahSZGu9"}]`

// newCluster creates a cluster whose request has the fields of a JSON object besides the required
// ones.
func newCluster(fields string) (*description.Cluster, error) {
	params := &models.ClusterCreateParams{Name: conv.Pointer("demo"), OpenshiftVersion: conv.Pointer("4.20"),
		PullSecret: conv.Pointer(`{"auths":{"quay.io":{"auth":"YTpi"}}}`)}
	if err := json.Unmarshal([]byte(fields), params); err != nil {
		return nil, err
	}
	return description.NewCluster(testSite, params, func() strfmt.UUID { return "id" })
}

func updateCluster(d *description.Cluster, fields string) error {
	params := &models.V2ClusterUpdateParams{}
	if err := json.Unmarshal([]byte(fields), params); err != nil {
		return err
	}
	return d.Update(params)
}

// object returns an object with a single text.
func object(t *testing.T, field, key, text string) string {
	t.Helper()
	encoded, err := json.Marshal(map[string]any{field: map[string]string{key: text}})
	require.NoError(t, err)
	return string(encoded)
}

// certificate returns a certificate in PEM form and base64.
func certificate(t *testing.T) string {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	encoded, err := x509.CreateCertificate(nil, template, template, public, private)
	require.NoError(t, err)
	return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: encoded}))
}

func TestCluster_updateChangesPartsAlone(t *testing.T) {
	ca := certificate(t)
	full := `{"disk_encryption":{"enable_on":"masters","mode":"tang","tang_servers":` +
		strconv.Quote(tangServers) + `},"load_balancer":{"type":"user-managed"},` +
		`"ignition_endpoint":{"url":"https://ign.example.com/config","ca_certificate":"` + ca + `"}}`
	for _, example := range []struct {
		name, update string
		change       func(*models.Cluster)
	}{
		{"the encrypted nodes", `{"disk_encryption":{"enable_on":"all"}}`,
			func(c *models.Cluster) { c.DiskEncryption.EnableOn = conv.Pointer("all") }},
		{"the mode of the encryption", `{"disk_encryption":{"mode":"tpmv2"}}`,
			func(c *models.Cluster) { c.DiskEncryption.Mode = conv.Pointer("tpmv2") }},
		{"the stored mode of the encryption", `{"disk_encryption":{"mode":"tang"}}`, func(*models.Cluster) {}},
		{"no part of the encryption", `{"disk_encryption":{}}`, func(*models.Cluster) {}},
		{"the URL of the endpoint", `{"ignition_endpoint":{"url":"http://other.example.com"}}`,
			func(c *models.Cluster) { c.IgnitionEndpoint.URL = conv.Pointer("http://other.example.com") }},
		{"an empty CA of the endpoint", `{"ignition_endpoint":{"ca_certificate":""}}`,
			func(c *models.Cluster) { c.IgnitionEndpoint.CaCertificate = nil }},
		{"an empty endpoint", `{"ignition_endpoint":{"url":"","ca_certificate":""}}`,
			func(c *models.Cluster) { c.IgnitionEndpoint = nil }},
		{"no part of the endpoint", `{"ignition_endpoint":{}}`, func(*models.Cluster) {}},
		{"no type of the load balancer", `{"load_balancer":{}}`, func(*models.Cluster) {}},
	} {
		t.Run(example.name, func(t *testing.T) {
			want, err := newCluster(full)
			require.NoError(t, err)
			example.change(&want.API)
			d, err := newCluster(full)
			require.NoError(t, err)
			require.NoError(t, updateCluster(d, example.update))
			require.Equal(t, want.API, d.API)
		})
	}
}

func TestCluster_rejectsBadEncryptionAndAddresses(t *testing.T) {
	servers := func(text string) string {
		return `{"disk_encryption":{"mode":"tang","tang_servers":` + strconv.Quote(text) + `}}`
	}
	for _, example := range []struct{ name, request, problem string }{
		{"Tang without servers", `{"disk_encryption":{"mode":"tang"}}`, "has no servers"},
		{"no JSON", servers("not json"), "are not a JSON list"},
		{"an empty list", servers("[]"), "are not a JSON list"},
		{"a server without a URL", servers(`[{"url":"tang","thumbprint":"a"}]`), `The Tang server "tang" is not a URL`},
		{"a server without a thumbprint", servers(`[{"url":"http://tang"}]`), "http://tang has no thumbprint"},
		{"an endpoint without a scheme", object(t, "ignition_endpoint", "url", "::bad"), `"::bad" is not a URL`},
		{"an endpoint of another scheme", object(t, "ignition_endpoint", "url", "ftp://a"), "is not a URL"},
		{"no base64", object(t, "ignition_endpoint", "ca_certificate", "z!"), "not a PEM certificate in base64"},
		{"no certificate", object(t, "ignition_endpoint", "ca_certificate", "YWJj"), "not a PEM certificate in base64"},
	} {
		t.Run(example.name, func(t *testing.T) {
			_, err := newCluster(example.request)
			require.ErrorContains(t, err, example.problem)
			require.Equal(t, fault.Invalid, fault.KindOf(err))
			d, err := newCluster(`{}`)
			require.NoError(t, err)
			err = updateCluster(d, example.request)
			require.ErrorContains(t, err, example.problem)
			require.Equal(t, fault.Invalid, fault.KindOf(err))
		})
	}
}

func TestCluster_fieldsOfKnownClusters(t *testing.T) {
	day1, err := newCluster(`{}`)
	require.NoError(t, err)
	known := &description.Cluster{API: description.KnownCluster("id", "demo", models.ClusterKindAddHostsCluster,
		models.ClusterStatusAddingHosts, "")}
	known.API.Imported = conv.Pointer(true)
	for _, example := range []struct {
		name, update, problem string
		cluster               *description.Cluster
	}{
		{"an address before the installation", `{"api_vip_dns_name":"api.a.b"}`, "is not installed yet", day1},
		{"a bad address", `{"api_vip_dns_name":"bad name!"}`, "neither a DNS name nor an IP address", known},
		{"the encryption of an imported cluster", `{"disk_encryption":{"enable_on":"all"}}`, "is imported", known},
	} {
		t.Run(example.name, func(t *testing.T) {
			err := updateCluster(example.cluster, example.update)
			require.ErrorContains(t, err, example.problem)
			require.Equal(t, fault.Invalid, fault.KindOf(err))
		})
	}
	require.NoError(t, updateCluster(known, `{"api_vip_dns_name":"192.168.10.4"}`))
	require.Equal(t, "192.168.10.4", *known.API.APIVipDNSName)
}

func TestCluster_singleNetworkFields(t *testing.T) {
	for _, example := range []struct{ name, create, update, networks string }{
		{"a new cluster", `{"cluster_network_cidr":"10.0.0.0/14","cluster_network_host_prefix":24,` +
			`"service_network_cidr":"172.20.0.0/16"}`, `{}`, "10.0.0.0/14 24 172.20.0.0/16"},
		{"a host prefix of a new cluster", `{"cluster_network_host_prefix":25}`, `{}`,
			"10.128.0.0/14 25 172.30.0.0/16"},
		{"an IPv6 network of a new cluster", `{"cluster_network_cidr":"fd01::/48","service_network_cidr":"fd02::/112"}`,
			`{}`, "fd01::/48 64 fd02::/112"},
		{"a network keeps the prefix", `{"cluster_network_host_prefix":25}`, `{"cluster_network_cidr":"10.0.0.0/14"}`,
			"10.0.0.0/14 25 172.30.0.0/16"},
		{"a network of the other family", `{}`, `{"cluster_network_cidr":"fd01::/48",` +
			`"service_network_cidr":"fd02::/112"}`, "fd01::/48 64 fd02::/112"},
		{"a host prefix alone", `{}`, `{"cluster_network_host_prefix":25}`, "10.128.0.0/14 25 172.30.0.0/16"},
		{"a list has precedence", `{}`, `{"cluster_network_host_prefix":25,` +
			`"cluster_networks":[{"cidr":"10.0.0.0/14","host_prefix":23}]}`, "10.0.0.0/14 23 172.30.0.0/16"},
	} {
		t.Run(example.name, func(t *testing.T) {
			d, err := newCluster(example.create)
			require.NoError(t, err)
			require.NoError(t, updateCluster(d, example.update))
			require.Equal(t, example.networks, d.API.ClusterNetworkCidr+" "+
				conv.FormatInteger(d.API.ClusterNetworkHostPrefix)+" "+d.API.ServiceNetworkCidr)
		})
	}
}

func TestCluster_hostPrefixChangesFirstNetworkOnly(t *testing.T) {
	d, err := newCluster(`{"cluster_networks":[{"cidr":"10.128.0.0/14","host_prefix":23},` +
		`{"cidr":"fd01::/48","host_prefix":64}],"service_networks":[{"cidr":"172.30.0.0/16"},{"cidr":"fd02::/112"}]}`)
	require.NoError(t, err)
	held := d.API.ClusterNetworks
	require.NoError(t, updateCluster(d, `{"cluster_network_host_prefix":24}`))
	require.Len(t, d.API.ClusterNetworks, 2)
	require.Equal(t, int64(24), d.API.ClusterNetworks[0].HostPrefix)
	require.Equal(t, int64(64), d.API.ClusterNetworks[1].HostPrefix)
	require.Equal(t, int64(23), held[0].HostPrefix, "the stored value must not change with the copy")
}
