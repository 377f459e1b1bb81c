package workers

import (
	"testing"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"landfall/appliance/engine/view"
	"landfall/appliance/kube/objects/agentinstall"
)

const joinedCluster, otherCluster = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"

func host(status, cluster string) *view.Host {
	h := &models.Host{Status: &status}
	if cluster != "" {
		id := strfmt.UUID(cluster)
		h.ClusterID = &id
	}
	return &view.Host{Host: h}
}

// agent returns an Agent with a sequence and a generation; chosen names its ClusterDeployment.
func agent(sequence string, generation int64, chosen string) *agentinstall.Agent {
	a := &agentinstall.Agent{ObjectMeta: metav1.ObjectMeta{UID: "a", Generation: generation,
		Annotations: map[string]string{annotationSequence: sequence}}}
	if chosen != "" {
		a.Spec.ClusterDeploymentName = &agentinstall.ClusterReference{Namespace: "cp", Name: chosen}
	}
	return a
}

func TestDecide_eachSituation(t *testing.T) {
	free := &Offered{UID: "a", Sequence: 3, Generation: 1}
	bound := &Offered{UID: "a", Sequence: 3, Generation: 2, Bound: joinedCluster, Choice: &Choice{Namespace: "cp",
		Name: "one"}}
	deleting := agent("3", 1, "")
	deleting.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	const ready, added = models.HostStatusKnownUnbound, models.HostStatusAddedToExistingCluster
	foreign := func(s *situation) { s.foreign = true }
	withdrawn := func(s *situation) { s.offered = false }
	unknown := func(s *situation) { s.known = false }
	unapproved := func(s *situation) { s.approved = false }
	const binding, discovering = models.HostStatusBinding, models.HostStatusDiscoveringUnbound
	for name, c := range map[string]struct {
		row    *Offered
		host   *view.Host
		agent  *agentinstall.Agent
		change func(*situation)
		want   action
	}{
		"a new host":                 {nil, host(ready, ""), nil, nil, create},
		"a new host, not ready":      {nil, host(models.HostStatusInsufficientUnbound, ""), nil, nil, nothing},
		"a new host, not approved":   {nil, host(ready, ""), nil, unapproved, hold},
		"a host that is not offered": {nil, host(ready, ""), nil, withdrawn, nothing},
		"no Agent, host free":        {free, host(ready, ""), nil, nil, create},
		"no Agent, host bound":       {bound, host(added, joinedCluster), nil, nil, create},
		"no Agent, no host":          {bound, nil, nil, nil, forget},
		"no Agent, withdrawn":        {free, host(ready, ""), nil, withdrawn, forget},
		"foreign Agent":              {free, host(ready, ""), agent("3", 1, "one"), foreign, hold},
		"Agent is being deleted":     {free, host(ready, ""), deleting, nil, nothing},
		"host was deleted":           {free, nil, agent("3", 1, ""), nil, remove},
		"unknown host":               {nil, nil, agent("3", 1, ""), nil, hold},
		"deleted host, lost state":   {free, nil, agent("4", 1, ""), nil, hold},
		"free on both sides":         {free, host(ready, ""), agent("3", 1, ""), nil, nothing},
		"withdrawn":                  {free, host(ready, ""), agent("3", 1, ""), withdrawn, remove},
		"chosen":                     {free, host(ready, ""), agent("3", 2, "one"), nil, bind},
		"chosen, not ready":          {free, host(discovering, ""), agent("3", 2, "one"), nil, nothing},
		"chosen, withdrawn":          {free, host(ready, ""), agent("3", 2, "one"), withdrawn, hold},
		"chosen by an unknown one":   {free, host(ready, ""), agent("3", 2, "one"), unknown, hold},
		"bound before a crash":       {free, host(binding, joinedCluster), agent("3", 2, "one"), nil, adopt},
		"bound to another cluster":   {free, host(added, otherCluster), agent("3", 2, "one"), nil, hold},
		"bound":                      {bound, host(added, joinedCluster), agent("3", 2, "one"), nil, follow},
		"unbound by a person":        {bound, host(ready, ""), agent("3", 2, "one"), nil, hold},
		"released":                   {bound, host(added, joinedCluster), agent("3", 3, ""), nil, unbind},
		"released before a crash":    {bound, host(ready, ""), agent("3", 3, ""), nil, done},
		"older Agent":                {bound, host(added, joinedCluster), agent("1", 1, ""), nil, hold},
		"moved":                      {bound, host(added, joinedCluster), agent("3", 3, "two"), nil, unbind},
		"moved, older Agent":         {bound, host(added, joinedCluster), agent("3", 2, "two"), nil, hold},
		"moved, host has left":       {bound, host(ready, ""), agent("3", 3, "two"), nil, done},
		"lost state, free":           {free, host(ready, ""), agent("9", 5, ""), nil, adopt},
		"lost state, chosen":         {free, host(ready, ""), agent("9", 5, "one"), nil, hold},
		"lost state, same cluster":   {bound, host(added, joinedCluster), agent("9", 5, "one"), nil, adopt},
		"lost state, released":       {bound, host(added, joinedCluster), agent("9", 5, ""), nil, hold},
		"another Agent of the name": {bound, host(added, joinedCluster), agent("3", 3, ""), func(s *situation) {
			s.agent.UID = "b"
		}, hold},
	} {
		t.Run(name, func(t *testing.T) {
			s := situation{host: c.host, offered: true, approved: true, row: c.row, agent: c.agent, known: true,
				wanted: joinedCluster}
			if c.change != nil {
				c.change(&s)
			}
			got, reason := decide(s)
			require.Equal(t, c.want, got)
			require.Equal(t, got == hold, reason != "", "a hold has a reason, and nothing else")
		})
	}
}
