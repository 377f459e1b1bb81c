package controlplane_test

import (
	"encoding/json"
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
