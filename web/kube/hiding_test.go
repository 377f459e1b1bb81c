package kube_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"landfall/appliance/kube/objects"
	"landfall/web/kube"
)

// Each planted secret contains one of these words. Operators may read the links of images.
const (
	ofAdministrators = "secret-word"
	ofOperators      = "image-token"
)

// planted are the objects with secrets, as their users and the appliance write them. The name of
// each object is "one", its namespace is "default".
var planted = map[objects.Kind]string{
	objects.ConfigMaps: `"data":{"a.yaml":"secret-word-1"},"binaryData":{"b":"c2VjcmV0LXdvcmQ="}`,
	objects.InfraEnvs: `"spec":{"pullSecretRef":{"name":"pull"},"ignitionConfigOverride":"{\"a\":\"secret-word-2\"}",
		"proxy":{"httpProxy":"http://user:secret-word@proxy.test:1","httpsProxy":"http://user:secret-word@proxy.test:2"}},
		"status":{"isoDownloadURL":"https://a.test/byapikey/image-token/full.iso","debugInfo":{"eventsURL":"https://a.test/",
		"staticNetworkDownloadURL":"https://a.test/files?api_key=image-token"},"bootArtifacts":{
		"initrd":"https://a.test/i/image-token","rootfs":"https://a.test/rootfs","kernel":"https://a.test/kernel",
		"ipxeScript":"https://a.test/?api_key=image-token","discoveryIgnitionURL":"https://a.test/?api_key=image-token"}}`,
	objects.Agents: `"spec":{"approved":true,"role":"","ignitionConfigOverrides":"{\"a\":\"secret-word-3\"}",
		"installerArgs":"[\"--append-karg\",\"secret-word\"]","ignitionEndpointHTTPHeaders":{"Authorization":"secret-word"}}`,
	objects.AgentClusterInstalls: `"spec":{"clusterDeploymentRef":{"name":"one"},"networking":{},
		"provisionRequirements":{"controlPlaneAgents":1},"proxy":{"httpProxy":"http://user:secret-word@proxy.test:1"}}`,
	objects.BareMetalHosts: `"spec":{"online":true,"bmc":{"address":"https://user:secret-word@192.0.2.1/","credentialsName":"a"},
		"image":{"url":"https://a.test/byapikey/image-token/full.iso"}},"status":{"errorCount":0,"errorMessage":"",
		"hardwareProfile":"","operationalStatus":"OK","poweredOn":true,"provisioning":{"ID":"","state":"provisioned",
		"image":{"url":"https://a.test/byapikey/image-token/full.iso"}}}`,
	objects.NMStateConfigs: `"spec":{"interfaces":[{"name":"eth0","macAddress":"52:54:00:00:00:01"}],"config":{
		"interfaces":[{"name":"eth0","type":"ethernet","mtu":1500,"802.1x":{"identity":"host","eap-methods":["tls"],
		"password":"secret-word","private-key-password":"secret-word-7"}}]}}`,
	objects.PreprovisioningImages: `"spec":{},"status":{"imageUrl":"https://a.test/i/image-token.iso"}`,
}

// annotations are the annotations of the planted objects that contain secrets.
var annotations = map[objects.Kind]map[string]string{
	objects.AgentClusterInstalls: {"agent-install.openshift.io/install-config-overrides": `{"a":"secret-word-4"}`},
	objects.BareMetalHosts: {"bmac.agent-install.openshift.io/ignition-config-overrides": `{"a":"secret-word-5"}`,
		"bmac.agent-install.openshift.io/installer-args": `["secret-word-6"]`,
		"baremetalhost.metal3.io/status":                 `{"provisioning":{"image":{"url":"https://a.test/image-token"}}}`},
}

func pathOf(kind objects.Kind) string {
	group := "/apis/" + kind.APIVersion()
	if kind.Group == "" {
		group = "/api/v1"
	}
	return group + "/namespaces/default/" + kind.Resource
}

// plantedSite returns a site with the planted objects, and their number of secrets.
func plantedSite(t *testing.T) *site {
	t.Helper()
	s := newSite(t, func(o *kube.Options) { o.Open = false })
	for kind, content := range planted {
		planting := object(t, kind, "default", "one", content)
		copied, err := planting.MarshalJSON()
		require.NoError(t, err)
		notes := map[string]string{"kubectl.kubernetes.io/last-applied-configuration": string(copied)}
		for name, text := range annotations[kind] {
			notes[name] = text
		}
		planting.SetAnnotations(notes)
		made, err := s.of(kind, "default").Create(t.Context(), planting.DeepCopy(), metav1.CreateOptions{})
		require.NoError(t, err, "%s", kind.Kind)
		if status, ok := planting.Object["status"]; ok {
			made.Object["status"] = status
			_, err = s.of(kind, "default").UpdateStatus(t.Context(), made, metav1.UpdateOptions{})
			require.NoError(t, err)
		}
	}
	return s
}

// send sends a request and returns the response, which must have a status.
func send(t *testing.T, status int, method, url, contentType, accept, body string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	request.Header.Set("Content-Type", contentType)
	request.Header.Set("Accept", accept)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, status, response.StatusCode, "%s %s: %s", method, url, text)
	return string(text)
}

// requireOnly requires that a text contains the secrets that a role may read, and no other.
func requireOnly(t *testing.T, role, text, what string) {
	t.Helper()
	const coded = "c2VjcmV0LXdvcmQ" // ofAdministrators in base64
	for _, word := range []string{ofAdministrators, coded} {
		require.True(t, role == "admin" || !strings.Contains(text, word), "%s as %s: %s", what, role, text)
	}
	require.True(t, role != "viewer" || !strings.Contains(text, ofOperators), "%s as %s: %s", what, role, text)
}

// TestHiding_inAllResponses reads planted secrets as each role, in all forms that a client can
// request.
func TestHiding_inAllResponses(t *testing.T) {
	s := plantedSite(t)
	for _, role := range []string{"viewer", "operator", "admin"} {
		base := asCaller(t, s, callers[role]).URL
		for kind, content := range planted {
			list := base + pathOf(kind)
			for _, form := range []string{asJSON, asMetadata, asTable, asProtobuf, "application/yaml"} {
				if form == asProtobuf && kind != objects.ConfigMaps {
					continue // not for custom resources
				}
				for _, url := range []string{list, list + "/one",
					list + "?watch=true&fieldSelector=metadata.name%3Done",
					list + "?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true" +
						"&fieldSelector=metadata.name%3Done",
					base + strings.Replace(pathOf(kind), "/namespaces/default", "", 1)} {
					if form == "application/yaml" && strings.Contains(url, "watch") {
						continue // watches are JSON or Protobuf
					}
					accept := form
					if form == asMetadata && !strings.Contains(url, "watch") && !strings.HasSuffix(url, "/one") {
						accept = strings.Replace(form, "Metadata", "MetadataList", 1)
					}
					var text string
					if strings.Contains(url, "watch") {
						text = string(events(t, url, accept)())
					} else {
						text = send(t, http.StatusOK, http.MethodGet, url, asJSON, accept, "")
					}
					requireOnly(t, role, text, accept+" "+url)
					if role == "admin" && form == asJSON {
						require.Equal(t, strings.Contains(content, ofAdministrators), strings.Contains(text,
							ofAdministrators))
						require.Equal(t, strings.Contains(content, ofOperators), strings.Contains(text, ofOperators))
					}
					if role == "operator" && form == asJSON && strings.Contains(content, ofOperators) {
						require.Contains(t, text, ofOperators, url)
					}
				}
			}
		}
	}
}

// plain returns an object as administrators see it, without the traces of the last writer.
func (s *site) plain(t *testing.T, kind objects.Kind) map[string]any {
	t.Helper()
	u := s.get(t, kind, "default", "one")
	u.SetResourceVersion("")
	u.SetManagedFields(nil)
	labels := u.GetLabels()
	delete(labels, "changed")
	if len(labels) == 0 {
		labels = nil
	}
	u.SetLabels(labels)
	return u.Object
}

// TestHiding_operatorsChangeOthers changes objects as an operator who cannot see their secrets, in
// all ways in which clients change objects.
func TestHiding_operatorsChangeOthers(t *testing.T) {
	s := plantedSite(t)
	base := asCaller(t, s, callers["operator"]).URL
	for kind := range planted {
		if kind == objects.BareMetalHosts {
			continue // only administrators write them
		}
		at := base + pathOf(kind) + "/one"
		before := s.plain(t, kind)
		read := func() *unstructured.Unstructured {
			u := &unstructured.Unstructured{}
			require.NoError(t, json.Unmarshal([]byte(send(t, http.StatusOK, http.MethodGet, at, asJSON, asJSON, "")),
				u))
			return u
		}
		written := func(what, answer string) {
			t.Helper()
			requireOnly(t, "operator", answer, what)
			require.Contains(t, answer, `"changed":`, "%s of %s", what, kind.Kind)
			require.Equal(t, before, s.plain(t, kind), "%s of %s", what, kind.Kind)
		}
		u := read()
		u.SetLabels(map[string]string{"changed": "put"})
		text, err := u.MarshalJSON()
		require.NoError(t, err)
		written("PUT", send(t, http.StatusOK, http.MethodPut, at, asJSON, asJSON, string(text)))
		requireOnly(t, "operator", send(t, http.StatusOK, http.MethodPatch, at+"?dryRun=All",
			"application/merge-patch+json", asJSON, `{"metadata":{"labels":{"changed":"dry"}}}`), "a dry run")

		written("a merge patch", send(t, http.StatusOK, http.MethodPatch, at, "application/merge-patch+json", asJSON,
			`{"metadata":{"labels":{"changed":"merge"}}}`))
		u = read()
		u.SetManagedFields(nil)
		u.SetResourceVersion("")
		u.SetLabels(map[string]string{"changed": "apply"})
		text, err = u.MarshalJSON()
		require.NoError(t, err)
		written("a server-side apply", send(t, http.StatusOK, http.MethodPatch, at+"?fieldManager=test&force=true",
			"application/apply-patch+yaml", asJSON, string(text)))

		send(t, http.StatusOK, http.MethodPatch, at, "application/json-patch+json", asJSON,
			`[{"op":"add","path":"/metadata/labels","value":{"changed":"copy"}}]`)
		for hidden := range strings.SplitSeq(hiddenPaths[kind], " ") {
			if hidden == "" {
				continue
			}
			answer := send(t, http.StatusOK, http.MethodPatch, at, "application/json-patch+json", asJSON,
				fmt.Sprintf(`[{"op":"copy","from":%q,"path":"/metadata/annotations/stolen"}]`, hidden))
			requireOnly(t, "operator", answer, "a copy of "+hidden)
			require.NotContains(t, s.get(t, kind, "default", "one").GetAnnotations()["stolen"], ofAdministrators)
			send(t, http.StatusOK, http.MethodPatch, at, "application/json-patch+json", asJSON,
				`[{"op":"remove","path":"/metadata/annotations/stolen"}]`)
		}
		written("the end", send(t, http.StatusOK, http.MethodGet, at, asJSON, asJSON, ""))
		requireOnly(t, "operator", send(t, http.StatusOK, http.MethodDelete, at, asJSON, asJSON, ""), "a deletion")
	}
}

// hiddenPaths are JSON pointers to hidden texts.
var hiddenPaths = map[objects.Kind]string{
	objects.ConfigMaps: "/data/a.yaml /metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration",
	objects.InfraEnvs: "/spec/ignitionConfigOverride /spec/proxy/httpProxy " +
		"/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration",
	objects.NMStateConfigs: "/spec/config/interfaces/0/802.1x/password " +
		"/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration",
	objects.Agents:               "/spec/installerArgs /spec/ignitionEndpointHTTPHeaders/Authorization",
	objects.AgentClusterInstalls: "/metadata/annotations/agent-install.openshift.io~1install-config-overrides",
}

// TestHiding_operatorsReplaceSecrets gives hidden fields new values, and removes them.
func TestHiding_operatorsReplaceSecrets(t *testing.T) {
	s := plantedSite(t)
	at := asCaller(t, s, callers["operator"]).URL + pathOf(objects.InfraEnvs) + "/one"
	answer := send(t, http.StatusOK, http.MethodPatch, at, "application/merge-patch+json", asJSON,
		`{"spec":{"ignitionConfigOverride":"{\"new\":\"secret-word\"}","proxy":{"httpProxy":null}}}`)
	requireOnly(t, "operator", answer, "the response")
	now := s.get(t, objects.InfraEnvs, "default", "one").Object["spec"].(map[string]any)
	require.Equal(t, `{"new":"secret-word"}`, now["ignitionConfigOverride"])
	require.Equal(t, map[string]any{"httpsProxy": "http://user:secret-word@proxy.test:2"}, now["proxy"])
}

// TestHiding_operatorsChangeNetworks changes a network whose passwords are hidden.
func TestHiding_operatorsChangeNetworks(t *testing.T) {
	s := plantedSite(t)
	at := asCaller(t, s, callers["operator"]).URL + pathOf(objects.NMStateConfigs) + "/one"
	const patch = "application/json-patch+json"
	answer := send(t, http.StatusOK, http.MethodPatch, at, patch, asJSON, `[
		{"op":"replace","path":"/spec/config/interfaces/0/mtu","value":9000},
		{"op":"replace","path":"/spec/config/interfaces/0/802.1x/password","value":"new-secret-word"}]`)
	requireOnly(t, "operator", answer, "the response")
	network := func() any {
		return s.get(t, objects.NMStateConfigs, "default", "one").Object["spec"].(map[string]any)["config"]
	}
	want := map[string]any{"interfaces": []any{map[string]any{"name": "eth0", "type": "ethernet", "mtu": int64(9000),
		"802.1x": map[string]any{"identity": "host", "eap-methods": []any{"tls"}, "password": "new-secret-word",
			"private-key-password": "secret-word-7"}}}}
	require.Equal(t, want, network())
	answer = send(t, http.StatusBadRequest, http.MethodPatch, at, patch, asJSON,
		`[{"op":"replace","path":"/spec/config/interfaces/0/name","value":"eth1"}]`)
	require.Contains(t, answer, "the field spec.config: interfaces[0].802.1x.password")
	require.Contains(t, answer, "has a text that stands for a hidden value; give the value itself")
	require.Equal(t, want, network())
}

// TestHiding_placeholdersAreNotStored sends the texts that stand for hidden values where no hidden
// value is stored.
func TestHiding_placeholdersAreNotStored(t *testing.T) {
	s := plantedSite(t)
	const hidden = "hidden: only administrators can read it"
	for _, role := range []string{"operator", "admin"} {
		base := asCaller(t, s, callers[role]).URL
		maps, envs := base+pathOf(objects.ConfigMaps), base+pathOf(objects.InfraEnvs)
		const merge = "application/merge-patch+json"
		for _, c := range []struct{ method, url, contentType, body string }{
			{http.MethodPost, maps, asJSON, `{"metadata":{"name":"two"},"data":{"a":"` + hidden + `"}}`},
			{http.MethodPost, maps, asJSON, `{"metadata":{"name":"two"},"binaryData":{"a":"` +
				base64.StdEncoding.EncodeToString([]byte(hidden)) + `"}}`},
			{http.MethodPatch, maps + "/one", merge, `{"data":{"other":"` + hidden + `"}}`},
			{http.MethodPatch, envs + "/one", merge,
				`{"spec":{"proxy":{"httpProxy":"http://user:xxxxx@other.test:1"}}}`},
			{http.MethodPatch, envs + "/one/status", merge,
				`{"status":{"isoDownloadURL":"https://a.test/hidden-from-viewers"}}`},
		} {
			answer := send(t, http.StatusBadRequest, c.method, c.url, c.contentType, asJSON, c.body)
			require.Contains(t, answer, "contains a text that stands for a hidden value; give the value itself")
		}
		text := "proxy: http://user:xxxxx@proxy.test"
		send(t, http.StatusOK, http.MethodPatch, maps+"/one", merge, asJSON, `{"data":{"other":"`+text+`"}}`)
		send(t, http.StatusOK, http.MethodPatch, maps+"/one", merge, asJSON, `{"data":{"other":null}}`)
	}
}
