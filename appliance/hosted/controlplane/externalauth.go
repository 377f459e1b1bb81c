package controlplane

import (
	"fmt"
	"strings"

	"landfall/appliance/hosted/arm"
	"landfall/appliance/hosted/record"
)

// issuerAuthority returns the name of the ConfigMap with the CA of an external auth's issuer.
func issuerAuthority(auth *record.ExternalAuth) string {
	return "external-auth-" + strings.ToLower(auth.ID.Child) + "-ca"
}

// clientSecret returns the name of the Secret with the secret of a confidential client. It is that
// of Clusters Service.
func clientSecret(auth *record.ExternalAuth, client *arm.ExternalAuthClient) string {
	return strings.ToLower(auth.ID.Child) + "-" + client.Component.Name + "-" + client.Component.Namespace
}

func propertiesOf(auth *record.ExternalAuth) (*arm.ExternalAuthProperties, error) {
	p, err := arm.ExternalAuthPropertiesOf(auth.Document)
	if err != nil {
		return nil, fmt.Errorf("read the external auth %s: %w", auth.ID.Child, err)
	}
	return p, nil
}

// addIssuerAuthorities adds the ConfigMaps with the CAs of the issuers.
func (s *set) addIssuerAuthorities(namespace string, auths []*record.ExternalAuth) error {
	for _, auth := range auths {
		p, err := propertiesOf(auth)
		if err != nil {
			return err
		}
		if p.Issuer.CA != "" {
			s.add(manifest{version: "v1", kind: "ConfigMap", resource: "configmaps", namespace: namespace,
				name: issuerAuthority(auth), body: object{"data": object{"ca-bundle.crt": p.Issuer.CA}},
				feedback: []string{"uid=.metadata.uid"}})
		}
	}
	return nil
}

// oidcProviders returns external auths in the form of the kind Authentication of OpenShift.
func oidcProviders(auths []*record.ExternalAuth) (all []object, err error) {
	for _, auth := range auths {
		p, err := propertiesOf(auth)
		if err != nil {
			return nil, err
		}
		mappings := object{"username": username(p.Claim.Mappings.Username)}
		if groups := p.Claim.Mappings.Groups; groups.Claim != "" {
			mappings["groups"] = object{"claim": groups.Claim, "prefix": groups.Prefix}
		}
		issuer := object{"issuerURL": p.Issuer.URL, "audiences": p.Issuer.Audiences}
		if p.Issuer.CA != "" {
			issuer["issuerCertificateAuthority"] = object{"name": issuerAuthority(auth)}
		}
		provider := object{"name": strings.ToLower(auth.ID.Child), "claimMappings": mappings, "issuer": issuer}
		if len(p.Clients) > 0 {
			provider["oidcClients"] = oidcClients(auth, p.Clients)
		}
		if len(p.Claim.ValidationRules) > 0 {
			var rules []object
			for _, rule := range p.Claim.ValidationRules {
				rules = append(rules, object{"type": rule.Type, "requiredClaim": object{
					"claim": rule.RequiredClaim.Claim, "requiredValue": rule.RequiredClaim.Value}})
			}
			provider["claimValidationRules"] = rules
		}
		all = append(all, provider)
	}
	return all, nil
}

func oidcClients(auth *record.ExternalAuth, clients []arm.ExternalAuthClient) (all []object) {
	for i := range clients {
		client := &clients[i]
		o := object{"componentName": client.Component.Name, "componentNamespace": client.Component.Namespace,
			"clientID": client.ClientID}
		if len(client.ExtraScopes) > 0 {
			o["extraScopes"] = client.ExtraScopes
		}
		if client.Type == arm.Confidential {
			o["clientSecret"] = object{"name": clientSecret(auth, client)}
		}
		all = append(all, o)
	}
	return all
}

// username returns the mapping of user names. The resource provider has a policy None, which is the
// empty text in OpenShift, and a prefix that is an object there.
func username(m arm.ClaimMapping) object {
	switch m.Policy {
	case "Prefix":
		return object{"claim": m.Claim, "prefixPolicy": m.Policy, "prefix": object{"prefixString": m.Prefix}}
	case "NoPrefix":
		return object{"claim": m.Claim, "prefixPolicy": m.Policy}
	}
	return object{"claim": m.Claim}
}
