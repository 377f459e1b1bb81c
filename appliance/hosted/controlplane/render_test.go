package controlplane_test

import (
	"encoding/json"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/hosted/arm"
	"landfall/appliance/hosted/controlplane"
	"landfall/appliance/hosted/record"
	"landfall/appliance/simulate/pki"
)

// authorityPEM returns a CA certificate.
func authorityPEM(t *testing.T) string {
	t.Helper()
	ca, err := pki.NewCA("issuer", "", pki.Day)
	require.NoError(t, err)
	return string(ca.Cert)
}

const externalAuth = `{"properties":{"issuer":{"url":"https://sso.example.com","audiences":["console","cli"]},
	"claim":{"mappings":{"username":{"claim":"email"}}}}}`

// rendered returns the manifests of a control plane whose external auth has changes as a merge
// patch.
func rendered(t *testing.T, patch string) string {
	t.Helper()
	n := newNested(t)
	n.in.Management.Layout = controlplane.Flat
	body, err := arm.Decode([]byte(externalAuth))
	require.NoError(t, err)
	changes, err := arm.Decode([]byte(patch))
	require.NoError(t, err)
	auth := &record.ExternalAuth{}
	auth.ID.Child = "SSO"
	auth.Document, err = arm.ExternalAuth.Create(arm.Merge(body, changes), nil)
	require.NoError(t, err)
	n.in.Auths = []*record.ExternalAuth{auth}
	content, err := n.control()
	require.NoError(t, err)
	text, err := json.Marshal(content.Manifests)
	require.NoError(t, err)
	return string(text)
}

func TestControl_fieldsOfExternalAuth(t *testing.T) {
	ca, err := json.Marshal(authorityPEM(t))
	require.NoError(t, err)
	for name, c := range map[string]struct {
		patch string
		want  []string
	}{
		"ca": {`{"issuer":{"ca":` + string(ca) + `}}`, []string{
			`"issuerCertificateAuthority":{"name":"external-auth-sso-ca"}`,
			`"data":{"ca-bundle.crt":` + string(ca) + `},"kind":"ConfigMap","metadata":{"name":"external-auth-sso-ca"`}},
		"confidential client": {`{"clients":[{"component":{"name":"console","authClientNamespace":"openshift-console"},
			"clientId":"console","type":"Confidential","extraScopes":["email"]}]}`, []string{
			`"oidcClients":[{"clientID":"console","clientSecret":{"name":"sso-console-openshift-console"},` +
				`"componentName":"console","componentNamespace":"openshift-console","extraScopes":["email"]}]`}},
		"public client": {`{"clients":[{"component":{"name":"cli","authClientNamespace":"openshift-console"},
			"clientId":"cli","type":"Public"}]}`, []string{
			`"oidcClients":[{"clientID":"cli","componentName":"cli","componentNamespace":"openshift-console"}]`}},
		"validation rule": {`{"claim":{"validationRules":[{"requiredClaim":{"claim":"hd","requiredValue":"example.com"}}]}}`,
			[]string{`"claimValidationRules":[{"requiredClaim":{"claim":"hd","requiredValue":"example.com"},` +
				`"type":"RequiredClaim"}]`}},
		"user names": {`{"claim":{"mappings":{"username":{"prefixPolicy":"Prefix","prefix":"sso:"}}}}`, []string{
			`"username":{"claim":"email","prefix":{"prefixString":"sso:"},"prefixPolicy":"Prefix"}`}},
		"groups": {`{"claim":{"mappings":{"groups":{"claim":"groups","prefix":"sso-"}}}}`, []string{
			`"groups":{"claim":"groups","prefix":"sso-"}`}},
	} {
		t.Run(name, func(t *testing.T) {
			text := rendered(t, `{"properties":`+c.patch+`}`)
			for _, want := range c.want {
				require.Contains(t, text, want)
			}
		})
	}
}

// A former version stored any value as clients and validation rules.
func TestControl_externalAuthOfFormerVersion(t *testing.T) {
	n := newNested(t)
	document, err := arm.Decode([]byte(strings.Replace(externalAuth, `{"properties":{`,
		`{"properties":{"clients":["console"],`, 1)))
	require.NoError(t, err)
	document.Set("properties.claim.validationRules", "none")
	auth := &record.ExternalAuth{Resource: record.Resource{Document: document}}
	n.in.Auths = []*record.ExternalAuth{auth}
	_, err = n.control()
	require.NoError(t, err)
}

// The bodies with the fields that HyperShift has: a value other than the default of each. Lists of
// objects are given as a whole.
var clusterFields = map[string]string{
	"properties.version.channelGroup":                    `"fast"`,
	"properties.network.networkType":                     `"Other"`,
	"properties.network.podCidr":                         `"10.140.0.0/14"`,
	"properties.network.serviceCidr":                     `"172.29.0.0/16"`,
	"properties.network.machineCidr":                     `"10.1.0.0/16"`,
	"properties.network.hostPrefix":                      `24`,
	"properties.api.authorizedCidrs":                     `["192.0.2.0/24"]`,
	"properties.autoscaling.maxNodesTotal":               `7`,
	"properties.autoscaling.maxPodGracePeriodSeconds":    `7`,
	"properties.autoscaling.maxNodeProvisionTimeSeconds": `7`,
	"properties.autoscaling.podPriorityThreshold":        `7`,
	"properties.nodeDrainTimeoutMinutes":                 `7`,
	"properties.clusterImageRegistry.state":              `"Disabled"`,
	"properties.imageDigestMirrors":                      `[{"source":"quay.io/a","mirrors":["example.com/a"]}]`,
	"properties.cryptoRestrictions":                      `"FIPS"`,
}

var poolFields = map[string]string{
	"properties.platform.vmSize":           `"small"`,
	"properties.platform.availabilityZone": `"2"`,
	"properties.replicas":                  `7`,
	"properties.autoScaling":               `{"min":1,"max":2}`,
	"properties.autoRepair":                `false`,
	"properties.labels":                    `[{"key":"a","value":"b"}]`,
	"properties.taints":                    `[{"key":"a","value":"b","effect":"NoSchedule"}]`,
	"properties.nodeDrainTimeoutMinutes":   `9`,
}

// elsewhere are the fields that the provider turns into names, releases and places, and those that
// describe the resource only.
var elsewhere = []string{"location", "tags", "identity", "properties.version.id", "properties.dns.baseDomainPrefix"}

// manifestsFor returns the manifests of a cluster with a node pool.
func manifestsFor(t *testing.T, clusterBody, poolBody string) string {
	t.Helper()
	n := newNested(t)
	n.in.Management.Layout = controlplane.Flat
	create := func(kind *arm.Kind, body string) arm.Document {
		document, err := arm.Decode([]byte(body))
		require.NoError(t, err)
		document, err = kind.Create(document, nil)
		require.NoError(t, err, body)
		return document
	}
	var err error
	cluster := create(arm.Cluster, clusterBody)
	n.in.Cluster.FIPS = cluster.Text("properties.cryptoRestrictions") == "FIPS"
	n.in.Properties, err = arm.ClusterPropertiesOf(cluster)
	require.NoError(t, err)
	p, err := arm.NodePoolPropertiesOf(create(arm.NodePool, poolBody))
	require.NoError(t, err)
	control, err := n.control()
	require.NoError(t, err)
	pool := &record.NodePool{}
	pool.ID.Child = "workers"
	nodes, err := controlplane.NodePool(n.in, pool, p)
	require.NoError(t, err)
	text, err := json.Marshal([]any{control.Manifests, nodes.Manifests})
	require.NoError(t, err)
	return string(text)
}

// with returns a body in which a field has a value.
func with(t *testing.T, body, field, value string) string {
	t.Helper()
	document, err := arm.Decode([]byte(body))
	require.NoError(t, err)
	document.Set(field, json.RawMessage(value))
	text, err := json.Marshal(document)
	require.NoError(t, err)
	return string(text)
}

// A request is refused, or each of its fields has an effect, or the document says that it has none.
func TestFields_haveAnEffectOrAreDocumented(t *testing.T) {
	const clusterBody = `{"location":"site","properties":{"network":{"podCidr":"10.132.0.0/14",
		"serviceCidr":"172.31.0.0/16","machineCidr":"10.0.0.0/16"}}}`
	const poolBody = `{"location":"site","properties":{"platform":{"vmSize":"large"}}}`
	text, err := os.ReadFile("../../../docs/hosted.md")
	require.NoError(t, err)
	_, table, _ := strings.Cut(string(text), "that differ on premises")
	table, _, _ = strings.Cut(table, "\n## ")
	plain := manifestsFor(t, clusterBody, poolBody)
	for kind, c := range map[string]struct {
		kind     *arm.Kind
		rendered map[string]string
		body     func(field, value string) string
	}{
		"cluster": {arm.Cluster, clusterFields, func(field, value string) string {
			return manifestsFor(t, with(t, clusterBody, field, value), poolBody)
		}},
		"node pool": {arm.NodePool, poolFields, func(field, value string) string {
			return manifestsFor(t, clusterBody, with(t, poolBody, field, value))
		}},
	} {
		for field, value := range c.rendered {
			require.NotEqual(t, plain, c.body(field, value), "%s of a %s has no effect", field, kind)
		}
		for _, field := range c.kind.Writable() {
			if !covered(field, c.rendered, table, kind) {
				require.Fail(t, "neither rendered nor documented", "%s of a %s", field, kind)
			}
		}
	}
}

func covered(field string, rendered map[string]string, table, kind string) bool {
	list, _, inList := strings.Cut(field, "[]")
	parent := path.Dir(strings.ReplaceAll(field, ".", "/"))
	parent = strings.ReplaceAll(parent, "/", ".")
	_, is := rendered[field]
	_, isParent := rendered[parent]
	_, isList := rendered[list]
	for _, row := range strings.Split(table, "\n") {
		if strings.Contains(row, " of a "+kind+" ") && (strings.Contains(row, "`"+field+"`") ||
			strings.Contains(row, "`"+parent+".*`")) {
			return true
		}
	}
	return is || isParent || inList && isList && !strings.HasSuffix(field, "mirrorSourcePolicy") ||
		slices.Contains(elsewhere, field)
}
