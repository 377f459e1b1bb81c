package hosts

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"landfall/appliance/engine/record"
	"landfall/appliance/kube/objects/agentinstall"
)

// conditionJoining is set on an Agent once the progress of its joining host could not be checked.
const conditionJoining = "Joining"

// setJoining writes the progress of a host that joins a cluster into its Agent.
func setJoining(a *agentinstall.Agent, joining *record.Joining, now time.Time) {
	a.Status.CSRStatus = agentinstall.CSRStatus{}
	if joining == nil {
		a.Status.Conditions = withoutCondition(a.Status.Conditions, conditionJoining)
		return
	}
	for _, request := range joining.Approved {
		kind := "client"
		if request.Serving {
			kind = "serving"
		}
		a.Status.CSRStatus.ApprovedCSRs = append(a.Status.CSRStatus.ApprovedCSRs, agentinstall.ApprovedCSR{
			Name: request.Name, Type: kind, ApprovedAt: metav1.NewTime(request.ApprovedAt.UTC().Truncate(time.Second)),
		})
	}
	if !joining.Attempted.IsZero() {
		at := metav1.NewTime(joining.Attempted.UTC().Truncate(time.Second))
		a.Status.CSRStatus.LastApprovalAttempt = &at
	}
	switch problem := joining.Problem; {
	case problem.Reason != "":
		a.Status.Conditions = setAgentCondition(a.Status.Conditions, now, agentinstall.Condition{
			Type: conditionJoining, Status: corev1.ConditionFalse, Reason: problem.Reason, Message: problem.Message,
		})
	case agentConditionOf(a.Status.Conditions, conditionJoining).Type != "":
		a.Status.Conditions = setAgentCondition(a.Status.Conditions, now, agentinstall.Condition{
			Type: conditionJoining, Status: corev1.ConditionTrue, Reason: "Followed",
			Message: "The progress of the host in its cluster is checked",
		})
	}
}

func withoutCondition(conditions []agentinstall.Condition, name string) []agentinstall.Condition {
	var left []agentinstall.Condition
	for _, c := range conditions {
		if c.Type != name {
			left = append(left, c)
		}
	}
	return left
}
