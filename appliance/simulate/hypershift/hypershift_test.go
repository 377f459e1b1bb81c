package hypershift

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func object(kind string, spec Object) Object {
	return Object{"kind": kind, "spec": spec, "metadata": Object{"name": "edge1", "namespace": "ocm-1",
		"generation": int64(1), "creationTimestamp": start.Format(time.RFC3339)}}
}

func conditionOf(status Object, kind string) string {
	for _, c := range status["conditions"].([]any) {
		if c.(Object)["type"] == kind {
			return c.(Object)["status"].(string)
		}
	}
	return ""
}

func TestOperator_hostedClusterBecomesAvailable(t *testing.T) {
	o, err := New(2)
	require.NoError(t, err)
	hosted := object("HostedCluster", Object{"release": Object{"image": "q/r:4.19.7-x86_64"}})
	require.Equal(t, "False", conditionOf(o.Reconcile(hosted, start), "Available"))
	status := o.Reconcile(hosted, start.Add(time.Minute))
	require.Equal(t, "True", conditionOf(status, "Available"))
	history := status["version"].(Object)["history"].([]any)[0].(Object)
	require.Equal(t, "4.19.7", history["version"])
	require.Equal(t, "ocm-1-edge1", o.Owned(hosted)[0]["metadata"].(Object)["namespace"])
}

func TestOperator_nodePoolNeedsHosts(t *testing.T) {
	o, err := New(2)
	require.NoError(t, err)
	for replicas, ready := range map[int64]string{2: "True", 3: "False"} {
		status := o.Reconcile(object("NodePool", Object{"replicas": replicas}), start.Add(time.Minute))
		require.Equal(t, ready, conditionOf(status, "Ready"))
		require.EqualValues(t, 2, status["replicas"])
	}
}

func TestOperator_badRequestIsDenied(t *testing.T) {
	o, err := New(2)
	require.NoError(t, err)
	require.Equal(t, "True", conditionOf(o.Reconcile(object("CertificateSigningRequest", Object{"request": "!"}),
		start), "Denied"))
	require.Nil(t, o.Reconcile(object("Secret", nil), start))
}
