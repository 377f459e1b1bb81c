package api

import (
	"strings"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/description"
	"landfall/web/problem"
)

// The answers of the API contain the URLs of proxies, with the password replaced as in
// [description.HideURLPassword]. A client that sends such a URL back unchanged keeps the password.

// hideProxyPasswords hides the passwords in an answer.
func hideProxyPasswords(value any) {
	switch value := value.(type) {
	case *models.Cluster:
		description.HideProxyPasswords(value)
	case *models.InfraEnv:
		hideInfraEnvPasswords(value)
	case []*models.InfraEnv:
		for _, env := range value {
			hideInfraEnvPasswords(env)
		}
	case models.InfraEnvList:
		for _, env := range value {
			hideInfraEnvPasswords(env)
		}
	}
}

func hideInfraEnvPasswords(env *models.InfraEnv) {
	if env == nil || env.Proxy == nil {
		return
	}
	shown := *env.Proxy // the engine's value stays as it is
	for _, at := range []**string{&shown.HTTPProxy, &shown.HTTPSProxy} {
		if *at != nil {
			hidden := description.HideURLPassword(**at)
			*at = &hidden
		}
	}
	env.Proxy = &shown
}

// hidden reports whether a client sent the URL of a proxy with a hidden password.
func hidden(sent *string) bool {
	return sent != nil && strings.Contains(*sent, ":"+description.HiddenPassword+"@")
}

// restoreProxyPassword replaces a URL with a hidden password by the stored URL. It rejects another
// URL with a hidden password.
func restoreProxyPassword(name string, sent **string, stored string) error {
	if !hidden(*sent) {
		return nil
	}
	if **sent != description.HideURLPassword(stored) {
		return problem.BadRequest("%s has the placeholder %s instead of a password; give the password too.", name,
			description.HiddenPassword)
	}
	*sent = &stored
	return nil
}

// restoreClusterProxies restores the hidden passwords in an update of a cluster.
func (s *Service) restoreClusterProxies(id string, params *models.V2ClusterUpdateParams) error {
	if !hidden(params.HTTPProxy) && !hidden(params.HTTPSProxy) {
		return nil
	}
	current, err := s.Engine.Cluster(id)
	if err != nil {
		return err
	}
	if err := restoreProxyPassword("http_proxy", &params.HTTPProxy, current.HTTPProxy); err != nil {
		return err
	}
	return restoreProxyPassword("https_proxy", &params.HTTPSProxy, current.HTTPSProxy)
}

// restoreInfraEnvProxies restores the hidden passwords in an update of an infra-env.
func (s *Service) restoreInfraEnvProxies(id string, params *models.InfraEnvUpdateParams) error {
	sent := params.Proxy
	if sent == nil || !hidden(sent.HTTPProxy) && !hidden(sent.HTTPSProxy) {
		return nil
	}
	current, err := s.Engine.InfraEnv(id)
	if err != nil {
		return err
	}
	stored := func(url func(*models.Proxy) *string) string {
		if current.Proxy == nil || url(current.Proxy) == nil {
			return ""
		}
		return *url(current.Proxy)
	}
	if err := restoreProxyPassword("http_proxy", &sent.HTTPProxy,
		stored(func(p *models.Proxy) *string { return p.HTTPProxy })); err != nil {
		return err
	}
	return restoreProxyPassword("https_proxy", &sent.HTTPSProxy,
		stored(func(p *models.Proxy) *string { return p.HTTPSProxy }))
}
