package hive

import "landfall/store"

// serviceSettings are what the site's AgentServiceConfig overrides of the service's settings, as environment variables.
func (h *Hosts) serviceSettings(tx *store.Tx) (map[string]string, error) { return nil, nil }
