package appliance

import (
	"context"
	"strings"

	"k8s.io/apiserver/pkg/admission"

	"landfall/appliance/engine"
	"landfall/appliance/kube/metal"
	"landfall/store"
)

// newMetalControllers adds the controllers of BareMetalHosts and related kinds to the loop. It
// returns the admission rules of their kinds and the task that queues changes of servers.
func (a *Appliance) newMetalControllers(k *kubernetesObjects) (admission.Interface, task) {
	options := metal.Options{
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
			if kind := engine.KindOf(err); kind == engine.Conflict || kind == engine.NotFound {
				return nil // the Agent has changed since it was read, and is reconciled again
			}
			return err
		},
	}
	if a.spokes != nil {
		options.Spokes = a.spokes
	}
	controllers := metal.New(options)
	return metal.NewAdmission(), func(ctx context.Context) error {
		return a.bmcs.Observe(ctx, controllers.EnqueueServer)
	}
}
