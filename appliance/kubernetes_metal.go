package appliance

import (
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
		RestartHost: a.engine.RestartHost,
	}
}
