package config

import (
	"github.com/jonboulle/clockwork"

	"landfall/appliance/access"
	"landfall/appliance/access/external"
	"landfall/appliance/access/ldap"
	"landfall/appliance/access/oidc"
)

// OIDC configures logins with an OpenID Connect provider. They are disabled without an issuer.
type OIDC struct {
	Issuer           string       `mapstructure:"issuer" check:"issuer"`
	ClientID         string       `mapstructure:"client_id"`
	ClientSecretFile string       `mapstructure:"client_secret_file" check:"path"`
	Scopes           []string     `mapstructure:"scopes"`
	NameClaim        string       `mapstructure:"name_claim"`
	GroupsClaim      string       `mapstructure:"groups_claim"`
	CABundle         string       `mapstructure:"ca_bundle" check:"file"`
	Roles            Roles        `mapstructure:"roles"`
	GroupScopes      []GroupScope `mapstructure:"group_scopes"`
}

// LDAP configures logins with an LDAP directory. They are disabled without a URL.
type LDAP struct {
	URL              []string     `mapstructure:"url"`
	Plain            bool         `mapstructure:"plain"`
	CABundle         string       `mapstructure:"ca_bundle" check:"file"`
	BindDN           string       `mapstructure:"bind_dn"`
	BindPasswordFile string       `mapstructure:"bind_password_file" check:"path"`
	BaseDN           string       `mapstructure:"base_dn"`
	UserFilter       string       `mapstructure:"user_filter"`
	NameAttribute    string       `mapstructure:"name_attribute"`
	GroupAttribute   string       `mapstructure:"group_attribute"`
	GroupBaseDN      string       `mapstructure:"group_base_dn"`
	GroupFilter      string       `mapstructure:"group_filter"`
	Roles            Roles        `mapstructure:"roles"`
	GroupScopes      []GroupScope `mapstructure:"group_scopes"`
}

// Roles are the groups of an identity provider whose members have a role.
type Roles struct {
	Admin    []string `mapstructure:"admin"`
	Operator []string `mapstructure:"operator"`
	Viewer   []string `mapstructure:"viewer"`
}

// GroupScope limits the members of a group to some clusters and infra-envs, by their IDs.
type GroupScope struct {
	Group     string   `mapstructure:"group"`
	Clusters  []string `mapstructure:"clusters" check:"id"`
	InfraEnvs []string `mapstructure:"infra_envs" check:"id"`
}

func (g GroupScope) problem(given map[string]any) string {
	clusters, _ := given["clusters"].([]any)
	infraEnvs, _ := given["infra_envs"].([]any)
	if len(clusters)+len(infraEnvs) == 0 { // an empty scope is no limit
		return "needs the key clusters or infra_envs with an ID"
	}
	return missingKey(given, "group")
}

// Enabled reports whether people can log in with an OpenID Connect provider.
func (o OIDC) Enabled() bool { return o.Issuer != "" }

// Options returns the options of the provider.
func (o OIDC) Options(clock clockwork.Clock) oidc.Options {
	return oidc.Options{
		Issuer: o.Issuer, ClientID: o.ClientID, ClientSecretFile: o.ClientSecretFile, Scopes: o.Scopes,
		CABundle: o.CABundle, NameClaim: o.NameClaim, GroupsClaim: o.GroupsClaim, Rules: o.Roles.rules(o.GroupScopes),
		Clock: clock,
	}
}

// Enabled reports whether people can log in with an LDAP directory.
func (l LDAP) Enabled() bool { return len(l.URL) > 0 }

// Options returns the options of the directory.
func (l LDAP) Options() ldap.Options {
	return ldap.Options{
		URLs: l.URL, Plain: l.Plain, CABundle: l.CABundle, BindDN: l.BindDN, BindPasswordFile: l.BindPasswordFile,
		BaseDN: l.BaseDN, UserFilter: l.UserFilter, NameAttribute: l.NameAttribute, GroupAttribute: l.GroupAttribute,
		GroupBaseDN: l.GroupBaseDN, GroupFilter: l.GroupFilter, Rules: l.Roles.rules(l.GroupScopes),
	}
}

func (r Roles) rules(scopes []GroupScope) external.Rules {
	rules := external.Rules{Administrators: r.Admin, Operators: r.Operator, Viewers: r.Viewer}
	for _, row := range scopes {
		rules.Scopes = append(rules.Scopes, external.GroupScope{Group: row.Group,
			Scope: access.Scope{Clusters: row.Clusters, InfraEnvs: row.InfraEnvs}})
	}
	return rules
}
