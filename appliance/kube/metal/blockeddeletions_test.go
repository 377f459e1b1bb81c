package metal_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"landfall/appliance/kube/objects"
	"landfall/appliance/kube/objects/agentinstall"
)

func TestBlockedDeletion_event(t *testing.T) {
	s := newSite(t)
	s.apply(objects.ConfigMaps, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "site", Name: "kept",
		Finalizers: []string{"example.com/mine"}}})
	s.apply(objects.InfraEnvs, infraEnvObject(func(infraEnv *agentinstall.InfraEnv) {
		infraEnv.Finalizers = []string{"infraenv.agent-install.openshift.io/ai-deprovision", "example.com/mine"}
	}))
	s.delete(objects.ConfigMaps, "kept")
	s.delete(objects.InfraEnvs, "env")
	require.Empty(t, s.events("kept"), "no Event before two minutes")
	s.clock.Advance(2 * time.Minute)
	require.Eventually(t, func() bool { return len(s.events("kept")) > 0 && len(s.events("env")) > 0 }, time.Minute,
		time.Millisecond)
	require.Equal(t, "The deletion of ConfigMap kept has been waiting since 2026-03-01T12:00:00Z for the finalizer "+
		"example.com/mine, which nothing at this site removes. "+
		`To delete it anyway: kubectl -n site patch configmaps kept --type=merge -p '{"metadata":{"finalizers":null}}'`+
		"\n", s.events("kept")["DeletionWaits"])
	require.Contains(t, s.events("env")["DeletionWaits"],
		`kubectl -n site patch infraenvs.agent-install.openshift.io env --type=merge -p '{"metadata":{"finalizers":["infraenv.agent-install.openshift.io/ai-deprovision"]}}'`)
}
