package arm

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const subscription = "7b3f56c1-667e-453d-855a-df6c21eaf6c1"

func TestCanonicalPath_wordsButNotNames(t *testing.T) {
	for given, wanted := range map[string]string{
		"/SUBSCRIPTIONS/A/RESOURCEGROUPS/Providers/PROVIDERS/microsoft.redhatopenshift/HCPOPENSHIFTCLUSTERS/NodePools/nodepools/X": "" +
			"/subscriptions/A/resourceGroups/Providers/providers/Microsoft.RedHatOpenShift/hcpOpenShiftClusters/NodePools/nodePools/X",
		"/subscriptions/A/providers/Microsoft.RedHatOpenshift/hcpopenshiftclusters": "" +
			"/subscriptions/A/providers/Microsoft.RedHatOpenShift/hcpOpenShiftClusters",
		"/subscriptions/A/providers/x/LOCATIONS/Locations/hcpoperationstatuses/OPERATIONS": "" +
			"/subscriptions/A/providers/x/locations/Locations/hcpOperationStatuses/OPERATIONS",
		"/Providers/Microsoft.RedhatOpenshift/OPERATIONS": "/providers/Microsoft.RedHatOpenShift/operations",
		"/api/assisted-install/v2/PROVIDERS":              "/api/assisted-install/v2/PROVIDERS",
		"/subscriptions":                                  "/subscriptions",
		"/subscriptions/A/resourcegroups/B/providers/C/D/E/requestadmincredential": "" +
			"/subscriptions/A/resourceGroups/B/providers/C/D/E/requestAdminCredential",
		"": "",
	} {
		require.Equal(t, wanted, CanonicalPath(given))
	}
}

func TestID_keyIsTheSameForAllSpellings(t *testing.T) {
	a := ID{Subscription: strings.ToUpper(subscription), Group: "RG", Cluster: "Edge", Child: "NP",
		ChildType: NodePools}
	b := ID{Subscription: subscription, Group: "rg", Cluster: "edge", Child: "np", ChildType: "nodepools"}
	require.Equal(t, a.Key(), b.Key())
	require.NoError(t, a.Check())
}

func TestID_badNamesAreRejected(t *testing.T) {
	for name, id := range map[string]ID{
		"subscription":             {Subscription: "x"},
		"group with a dot at end":  {Subscription: subscription, Group: "a."},
		"group with a slash":       {Subscription: subscription, Group: "a/b"},
		"long group":               {Subscription: subscription, Group: strings.Repeat("a", 91)},
		"cluster with a digit":     {Subscription: subscription, Cluster: "1a"},
		"cluster with a hyphen":    {Subscription: subscription, Cluster: "a-"},
		"long cluster":             {Subscription: subscription, Cluster: strings.Repeat("a", 55)},
		"long node pool":           {Subscription: subscription, Child: strings.Repeat("a", 16)},
		"node pool with underline": {Subscription: subscription, Child: "a_b"},
	} {
		require.Error(t, id.Check(), name)
	}
}

func TestVersion_knownOnesOfAnySpelling(t *testing.T) {
	for _, version := range append(apiVersions, strings.ToUpper(DefaultVersion)) {
		require.NoError(t, CheckVersion(version), version)
	}
	for version, code := range map[string]string{"": CodeInvalidParameter, "2020-01-01": CodeInvalidResourceType} {
		failure, ok := errors.AsType[*Error](CheckVersion(version))
		require.True(t, ok)
		require.Equal(t, code, failure.Code)
	}
}

func decode(t *testing.T, text string) Document {
	t.Helper()
	document, err := Decode([]byte(text))
	require.NoError(t, err)
	return document
}

const clusterBody = `{"location":"site","properties":{"network":{"podCidr":"10.132.0.0/14",
	"serviceCidr":"172.31.0.0/16","machineCidr":"10.0.0.0/16"}}}`

func TestCluster_defaults(t *testing.T) {
	document, err := Cluster.Create(decode(t, clusterBody), nil)
	require.NoError(t, err)
	p, err := ClusterPropertiesOf(document)
	require.NoError(t, err)
	require.Equal(t, "OVNKubernetes", p.Network.Type)
	require.EqualValues(t, 23, p.Network.HostPrefix)
	require.Equal(t, "stable", p.Version.ChannelGroup)
	require.Equal(t, "Public", p.API.Visibility)
	require.EqualValues(t, 600, p.Autoscaling.MaxPodGracePeriodSeconds)
	require.EqualValues(t, -10, p.Autoscaling.PodPriorityThreshold)
}

// Each row is a request that is refused, and the field that its error names.
func TestCluster_badInputNamesTheField(t *testing.T) {
	for body, target := range map[string]string{
		`{}`:                              "location",
		`{"location":1}`:                  "location",
		`{"location":"a","zone":"b"}`:     "zone",
		`{"location":"a","properties":5}`: "properties",
		`{"location":"a","tags":[]}`:      "tags",
		`{"location":"a","tags":{"a":1}}`: "tags.a",
		`{"location":"a","properties":{"version":{"id":"latest"}}}`:                                           "properties.version.id",
		`{"location":"a","properties":{"version":{"id":4.19}}}`:                                               "properties.version.id",
		`{"location":"a","properties":{"version":{"channelGroup":"x"}}}`:                                      "properties.version.channelGroup",
		`{"location":"a","properties":{"provisioningState":"Succeeded"}}`:                                     "properties.provisioningState",
		`{"location":"a","properties":{"dns":{"baseDomainPrefix":"A"}}}`:                                      "properties.dns.baseDomainPrefix",
		`{"location":"a","properties":{"dns":{"baseDomainPrefix":"abcdefghijklmnop"}}}`:                       "properties.dns.baseDomainPrefix",
		`{"location":"a","properties":{"network":{"podCidr":"10.128.0.1/14"}}}`:                               "properties.network.podCidr",
		`{"location":"a","properties":{"network":{"hostPrefix":0}}}`:                                          "properties.network.hostPrefix",
		`{"location":"a","properties":{"network":{"hostPrefix":23.5}}}`:                                       "properties.network.hostPrefix",
		`{"location":"a","properties":{"api":{"authorizedCidrs":["x"]}}}`:                                     "properties.api.authorizedCidrs[0]",
		`{"location":"a","properties":{"imageDigestMirrors":[{"mirrors":["a.b/c"]}]}}`:                        "properties.imageDigestMirrors[0].source",
		`{"location":"a","properties":{"imageDigestMirrors":[{"source":"a.b/c","mirrors":["https://x y"]}]}}`: "properties.imageDigestMirrors[0].mirrors[0]",
		`{"location":"a","properties":{"nodeDrainTimeoutMinutes":-1}}`:                                        "properties.nodeDrainTimeoutMinutes",
		`{"location":"a","properties":{"network":{"podCidr":"10.0.0.0/8","serviceCidr":"10.1.0.0/16",
			"machineCidr":"192.168.0.0/16"}}}`: "properties.network.podCidr",
		`{"location":"a","properties":{"network":{"podCidr":"10.0.0.0/24","hostPrefix":23,
			"serviceCidr":"10.1.0.0/16","machineCidr":"192.168.0.0/16"}}}`: "properties.network.hostPrefix",
		`{"location":"a","properties":{"etcd":{"dataEncryption":{"customerManaged":{"encryptionType":"KMS"}}}}}`: "properties.etcd.dataEncryption.customerManaged",
	} {
		_, err := Cluster.Create(decode(t, body), nil)
		failure, ok := errors.AsType[*Error](err)
		require.True(t, ok, body)
		require.Equal(t, CodeInvalidContent, failure.Code, body)
		require.Equal(t, target, failure.Target, body)
	}
}

func TestCluster_networksThatCannotWork(t *testing.T) {
	for networks, target := range map[string]string{
		`{"podCidr":"fd01::/48","hostPrefix":64,"serviceCidr":"fd02::/112"}`: "",
		`{"hostPrefix":32}`:                       "",
		`{"hostPrefix":33}`:                       "properties.network.hostPrefix",
		`{"hostPrefix":100}`:                      "properties.network.hostPrefix",
		`{"hostPrefix":14}`:                       "properties.network.hostPrefix",
		`{"podCidr":"fd01::/48","hostPrefix":64}`: "properties.network.serviceCidr",
		`{"podCidr":42}`:                          "properties.network.podCidr",
		`{"podCidr":""}`:                          "properties.network.podCidr",
	} {
		body := Merge(decode(t, clusterBody), decode(t, `{"properties":{"network":`+networks+`}}`))
		_, err := Cluster.Create(body, nil)
		if target == "" {
			require.NoError(t, err, networks)
			continue
		}
		failure, ok := errors.AsType[*Error](err)
		require.True(t, ok, networks)
		require.Equal(t, target, failure.Target, networks)
	}
}

func TestCluster_severalErrorsAreDetails(t *testing.T) {
	_, err := Cluster.Create(decode(t, `{"location":"a","x":1,"y":2}`), nil)
	failure, ok := errors.AsType[*Error](err)
	require.True(t, ok)
	require.Equal(t, CodeMultiple, failure.Code)
	require.Len(t, failure.Details, 2)
}

func TestCluster_replacement(t *testing.T) {
	before, err := Cluster.Create(decode(t, clusterBody), nil)
	require.NoError(t, err)
	shown := before.Clone()
	shown.Set("properties.provisioningState", "Succeeded")
	same, err := Cluster.Replace(before, shown, shown)
	require.NoError(t, err, "a client may send back what it has read")
	require.Equal(t, before, same)
	_, err = Cluster.Replace(before, decode(t, `{"location":"site"}`), shown)
	require.NoError(t, err, "a field that can't change may be missing")
	for body, target := range map[string]string{
		`{"location":"elsewhere"}`: "location",
		`{"location":"site","properties":{"network":{"podCidr":"10.200.0.0/16"}}}`: "properties.network.podCidr",
		`{"location":"site","properties":{"provisioningState":"Failed"}}`:          "properties.provisioningState",
	} {
		_, err = Cluster.Replace(before, decode(t, body), shown)
		failure, ok := errors.AsType[*Error](err)
		require.True(t, ok, body)
		require.Equal(t, target, failure.Target)
	}
}

func TestPatch_tagsAndNull(t *testing.T) {
	before, err := Cluster.Create(Merge(decode(t, clusterBody), decode(t,
		`{"tags":{"a":"b"},"properties":{"nodeDrainTimeoutMinutes":5}}`)), nil)
	require.NoError(t, err)
	for patch, tags := range map[string]any{
		`{}`:                   map[string]any{"a": "b"},
		`{"tags":null}`:        map[string]any{"a": "b"},
		`{"tags":{}}`:          map[string]any{},
		`{"tags":{"c":"d"}}`:   map[string]any{"c": "d"},
		`{"properties":null}`:  map[string]any{"a": "b"},
		`{"location":"site"}`:  map[string]any{"a": "b"},
		`{"tags":{"a":"new"}}`: map[string]any{"a": "new"},
	} {
		after, err := Cluster.Patch(before, decode(t, patch), before)
		require.NoError(t, err, patch)
		require.Equal(t, tags, after["tags"], patch)
	}
	after, err := Cluster.Patch(before, decode(t, `{"properties":{"nodeDrainTimeoutMinutes":null}}`), before)
	require.NoError(t, err)
	require.Nil(t, lookup(after, "properties.nodeDrainTimeoutMinutes"))
}

func TestDocument_keepsNumbers(t *testing.T) {
	made, err := Cluster.Create(Merge(decode(t, clusterBody), decode(t,
		`{"identity":{"whole":3,"part":0.5,"small":1e-3}}`)), nil)
	require.NoError(t, err)
	stored, err := json.Marshal(made)
	require.NoError(t, err)
	var read Document
	require.NoError(t, json.Unmarshal(stored, &read))
	identity, err := json.Marshal(read.Clone()["identity"])
	require.NoError(t, err)
	require.JSONEq(t, `{"whole":3,"part":0.5,"small":0.001}`, string(identity))
}

func TestNodePool_scaling(t *testing.T) {
	const begin = `{"location":"a","properties":{"platform":{"vmSize":"large"},`
	for body, target := range map[string]string{
		begin + `"replicas":2}}`:                                                                  "",
		begin + `"autoScaling":{"min":1,"max":3}}}`:                                               "",
		begin + `"replicas":2,"autoScaling":{"min":1,"max":3}}}`:                                  "properties.replicas",
		begin + `"autoScaling":{"min":4,"max":3}}}`:                                               "properties.autoScaling.min",
		begin + `"labels":[{"key":"a","value":"b"},{"key":"a"}]}}`:                                "properties.labels[1].key",
		begin + `"autoScaling":{"min":0,"max":3}}}`:                                               "properties.autoScaling.min",
		begin + `"autoScaling":{"min":1}}}`:                                                       "properties.autoScaling.max",
		begin + `"autoScaling":{"max":1}}}`:                                                       "properties.autoScaling.min",
		begin + `"taints":[{"key":"a","effect":"NoExecute"},{"key":"a","effect":"NoSchedule"}]}}`: "",
		begin + `"taints":[{"key":"a","effect":"NoExecute"},{"key":"a","effect":"NoExecute"}]}}`:  "properties.taints[1]",
		begin + `"taints":[{"key":"a","effect":"Never"}]}}`:                                       "properties.taints[0].effect",
		begin + `"taints":[{"effect":"NoSchedule"}]}}`:                                            "properties.taints[0].key",
		`{"location":"a","properties":{"replicas":2}}`:                                            "properties.platform.vmSize",
		`{"location":"a","properties":{"platform":{"vmSize":"very big"}}}`:                        "properties.platform.vmSize",
	} {
		_, err := NodePool.Create(decode(t, body), nil)
		if target == "" {
			require.NoError(t, err, body)
			continue
		}
		failure, ok := errors.AsType[*Error](err)
		require.True(t, ok, body)
		require.Equal(t, target, failure.Target)
	}
}

func TestExternalAuth_refusesWhatCannotWork(t *testing.T) {
	const client = `{"component":{"name":"console","authClientNamespace":"openshift-console"},"clientId":"a","type":"Public"}`
	for properties, target := range map[string]string{
		`{"clients":[` + client + `]}`:                                              "",
		`{"issuer":{"ca":"a certificate"}}`:                                         "properties.issuer.ca",
		`{"clients":"console"}`:                                                     "properties.clients",
		`{"clients":[` + strings.Replace(client, `"a"`, `"b"`, 1) + `]}`:            "properties.clients[0].clientId",
		`{"clients":[` + strings.Replace(client, "Public", "public", 1) + `]}`:      "properties.clients[0].type",
		`{"clients":[` + strings.Replace(client, `"name":"console",`, "", 1) + `]}`: "properties.clients[0].component.name",
		`{"clients":[` + client + `,` + client + `]}`:                               "properties.clients[1].component",
		`{"claim":{"validationRules":[{"type":"RequiredClaim"}]}}`: "" +
			"properties.claim.validationRules[0].requiredClaim.claim",
		`{"claim":{"mappings":{"username":{"prefixPolicy":"Prefix"}}}}`: "properties.claim.mappings.username.prefix",
	} {
		body := Merge(decode(t, `{"properties":{"issuer":{"url":"https://a","audiences":["a"]},
			"claim":{"mappings":{"username":{"claim":"c"}}}}}`), decode(t, `{"properties":`+properties+`}`))
		_, err := ExternalAuth.Create(body, nil)
		if target == "" {
			require.NoError(t, err, properties)
			continue
		}
		failure, ok := errors.AsType[*Error](err)
		require.True(t, ok, properties)
		if failure.Code == CodeMultiple {
			failure = failure.Details[0]
		}
		require.Equal(t, target, failure.Target, properties)
	}
}

func TestDecode_onlyOneShallowObject(t *testing.T) {
	for _, text := range []string{``, `null`, `[]`, `1`, `{`, `{} {}`, strings.Repeat(`{"a":`, 100) + `1` +
		strings.Repeat(`}`, 100)} {
		_, err := Decode([]byte(text))
		require.Error(t, err, text)
	}
}

// FuzzBody holds for any body: it is refused with an error that names a field, or the resource can
// be stored, read and sent back unchanged.
func FuzzBody(f *testing.F) {
	f.Add(clusterBody)
	f.Add(`{"location":"a","properties":{"platform":{"vmSize":"large"},"replicas":2,"labels":[{"key":"a"}]}}`)
	f.Add(`{"properties":{"issuer":{"url":"https://a","audiences":["b"]},"claim":{"mappings":{"username":{"claim":"c"}}}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		body, err := Decode([]byte(text))
		if err != nil {
			return
		}
		for _, kind := range []*Kind{Cluster, NodePool, ExternalAuth} {
			made, err := kind.Create(body, nil)
			if err != nil {
				require.Implements(t, (*error)(nil), err)
				_, ok := errors.AsType[*Error](err)
				require.True(t, ok, "%v", err)
				continue
			}
			stored, err := json.Marshal(made)
			require.NoError(t, err)
			var read Document
			require.NoError(t, json.Unmarshal(stored, &read))
			again, err := kind.Replace(read, read, read)
			require.NoError(t, err)
			after, err := json.Marshal(again)
			require.NoError(t, err)
			require.JSONEq(t, string(stored), string(after))
			_, err = kind.Patch(read, Document{}, read)
			require.NoError(t, err)
		}
	})
}
