package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"
	"github.com/spf13/cobra"

	"landfall/appliance/command/action"
	"landfall/appliance/command/outcome"
	"landfall/appliance/command/output"
	"landfall/appliance/command/remote"
	"landfall/appliance/engine/operator"
	"landfall/appliance/sentence"
)

// Conditions of wait that are no states of a cluster.
const (
	installed = "installed"
	deleted   = "deleted"
)

// conditions are the states that are worth waiting for.
func conditions() []string {
	return []string{models.ClusterStatusReady, installed, models.ClusterStatusInsufficient,
		models.ClusterStatusInstalling, models.ClusterStatusFinalizing, models.ClusterStatusError,
		models.ClusterStatusCancelled, deleted}
}

func newWait() *cobra.Command {
	a := action.New()
	var condition string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "wait NAME --for CONDITION",
		Short: "Wait until a cluster is ready, installed or in another state",
		Long: "Wait until a cluster is in a state: " + strings.Join(conditions(), ", ") + ".\n\n" +
			"The exit code is 0 if the cluster reached the state, 1 if it cannot reach it any more because the " +
			"installation could not be\nprepared, failed or was cancelled, and 3 if the time was over. A failed " +
			"preparation does not end the wait for a cluster of\nthe Kubernetes API, because its " +
			"AgentClusterInstall starts the installation again. For that, the command must be able to read\nthe " +
			"Kubernetes API at the appliance's URL.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			if !slices.Contains(conditions(), condition) {
				return outcome.Usagef("--for %q is invalid; expected one of %s", condition,
					strings.Join(conditions(), ", "))
			}
			id, err := a.ClusterID(cmd.Context(), arguments[0])
			if err != nil {
				if condition == deleted && strings.Contains(err.Error(), "does not exist") {
					return nil
				}
				return err
			}
			return await(cmd, a, id, condition, timeout)
		},
	}
	a.AddFlags(cmd.Flags())
	cmd.Flags().StringVar(&condition, "for", installed, "state to wait for: "+strings.Join(conditions(), ", "))
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "time limit, such as 5m; default: none")
	output.Choices(cmd, "for", conditions()...)
	return cmd
}

// errTimeout is the cause of a wait that reached its time limit.
var errTimeout = errors.New("the time is over")

// await follows a cluster until it is in a state.
func await(cmd *cobra.Command, a *action.Action, id, condition string, timeout time.Duration) error {
	ctx := cmd.Context()
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, timeout, errTimeout)
		defer cancel()
	}
	line := NewProgress(cmd.ErrOrStderr())
	defer line.End()
	changes := a.Follow(ctx, "clusters", "hosts")
	defer changes.Close()
	started := a.Now()
	last, retries := new(models.Cluster), &retries{Action: a, out: cmd.ErrOrStderr()}
	for {
		text, err := a.Fetch(ctx, remote.ClusterPath(id))
		if gone, ok := errors.AsType[*remote.RefusedError](err); ok && gone.Status == 404 && condition == deleted {
			return nil
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
		if err == nil {
			last = new(models.Cluster)
			if err := json.Unmarshal(text, last); err != nil {
				return fmt.Errorf("the response does not match the API: %w", err)
			}
			line.Show(last)
			done, err := reached(last, condition)
			if failed, ok := errors.AsType[*preparationError](err); ok {
				line.End()
				err = retries.pass(ctx, id, last.Name, failed)
			}
			if done || err != nil {
				line.End()
				if err == nil {
					fmt.Fprintf(cmd.OutOrStdout(), "The cluster %s is %s after %s.\n", last.Name,
						conv.Value(last.Status), a.Now().Sub(started).Round(time.Second))
					if text := Degradation(last); text != "" {
						fmt.Fprintln(cmd.OutOrStdout(), text)
					}
				}
				return err
			}
		}
		if err := changes.Next(ctx); errors.Is(err, errTimeout) {
			line.End()
			return &outcome.CodeError{Code: outcome.Waiting, Cause: overdue(last, condition, timeout)}
		} else if err != nil {
			return err
		}
	}
}

// reached reports whether a cluster is in the wanted state. The error says why it cannot get there.
func reached(cluster *models.Cluster, condition string) (bool, error) {
	status := conv.Value(cluster.Status)
	if status == condition {
		return true, nil
	}
	if condition == models.ClusterStatusReady && slices.Contains([]string{models.ClusterStatusInstalling,
		models.ClusterStatusFinalizing, installed}, status) {
		return true, nil // ready, and already on its way
	}
	if (status == models.ClusterStatusError || status == models.ClusterStatusCancelled) && condition != deleted {
		next := "progress " + cluster.Name + " shows what to do"
		if status == models.ClusterStatusCancelled {
			next = "reset " + cluster.Name + " prepares it for another installation"
		}
		return false, fmt.Errorf("the cluster %s is in the state %s: %s; landfall cluster %s", cluster.Name, status,
			sentence.Clause(conv.Value(cluster.StatusInfo)), next)
	}
	if preparationFailed(cluster, status) && slices.Contains([]string{models.ClusterStatusInstalling,
		models.ClusterStatusFinalizing, installed}, condition) {
		return false, &preparationError{fmt.Errorf("the installation of the cluster %s could not be prepared: %s",
			cluster.Name, cluster.LastInstallationPreparation.Reason)}
	}
	return false, nil
}

// preparationError is the error of a cluster whose installation could not be prepared.
type preparationError struct{ error }

// preparationFailed reports whether a cluster waits for another try after a failed preparation. The
// start of an installation resets the result of the former preparation.
func preparationFailed(cluster *models.Cluster, status string) bool {
	return cluster.LastInstallationPreparation.Status == models.LastInstallationPreparationStatusFailed &&
		slices.Contains([]string{models.ClusterStatusReady, models.ClusterStatusInsufficient,
			models.ClusterStatusPendingForInput}, status)
}

// overdue says what a cluster waits for.
func overdue(cluster *models.Cluster, condition string, timeout time.Duration) error {
	if cluster.Status == nil {
		return fmt.Errorf("the appliance did not answer within %s", timeout)
	}
	info := conv.Value(cluster.StatusInfo)
	text := fmt.Sprintf("the cluster %s is not %s after %s but %s: %s", cluster.Name, condition, timeout,
		conv.Value(cluster.Status), sentence.Clause(info))
	for _, failure := range failing(cluster) {
		if !strings.Contains(info, failure.text) {
			text += fmt.Sprintf("\n%s: %s", failure.of, sentence.Clause(failure.text))
		}
	}
	return errors.New(text)
}

// Degradation says which operators of an installed cluster failed. It is empty if none failed.
func Degradation(installed *models.Cluster) string {
	names := operator.Failed(installed)
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("It is degraded. Failed OLM operators: %s. landfall operator list --cluster %s shows the "+
		"causes.", strings.Join(names, ", "), installed.Name)
}
