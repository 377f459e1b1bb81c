package appliance

import (
	"context"
	"strings"

	"landfall/appliance/fault"
	"landfall/appliance/kube/metal"
	"landfall/store"
)

// metalOptions returns the options of the controllers of BareMetalHosts, without the connections to
// installed clusters.
func (a *Appliance) metalOptions(k *kubernetesObjects) metal.Options {
	return metal.Options{
		Loop: k.loop, DB: a.db, Objects: k.objects, Servers: a.bmcs, ImageSettles: a.config.Kubernetes.ImageSettles,
		Logger: a.log,
		InfraEnvID: func(tx *store.Tx, namespace, name string) (string, error) {
			return a.engine.Rows(tx).InfraEnvOf(namespace + "/" + name)
		},
		HostKey: func(tx *store.Tx, namespace, name string) (string, error) {
			return a.engine.Rows(tx).HostOf(namespace + "/" + name)
		},
		RestartHost: func(ctx context.Context, key string) error {
			infraEnv, host, _ := strings.Cut(key, "/")
			err := a.engine.RestartHost(ctx, infraEnv, host)
			if kind := fault.KindOf(err); kind == fault.Conflict || kind == fault.NotFound {
				return nil // the Agent has changed since it was read, and is reconciled again
			}
			return err
		},
	}
}
