package progress

import (
	"strings"
	"testing"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/engine/lifecycle"
)

func TestFailure_rootCauseFirst(t *testing.T) {
	const tooLong = "The installation took too long: its certificates are valid for 24 hours."
	for _, test := range []struct {
		name    string
		do      func(*site)
		title   string
		cause   string // kind and name
		others  []string
		stopped []string
	}{
		{"one host fails and stops the others", func(s *site) {
			s.stage(20, "host-2", models.HostStageWritingImageToDisk)
			s.fail(50, "host-2", "failed to write image: input/output error")
		}, `Host host-2 failed in the stage "Writing image to disk"`, "host host-2", nil, []string{"host-1", "host-3"}},
		{"the first of two hosts is the cause", func(s *site) {
			s.stage(20, "host-2", models.HostStageInstalling)
			s.stage(20, "host-3", models.HostStageInstalling)
			s.host(40, "host-3", lifecycle.HostFailed, "no route to host")
			s.fail(50, "host-2", "no route to host")
		}, `Host host-3 failed in the stage "Installing"`, "host host-3", []string{"host-2"}, []string{"host-1"}},
		{"a host waited for a person", func(s *site) {
			s.stage(20, "host-2", models.HostStageRebooting)
			s.host(30, "host-2", lifecycle.HostPendingUserAction, lifecycle.WrongBootOrder)
			s.cluster(90, lifecycle.ClusterFailed, tooLong)
			s.stopOthers(90)
		}, "Host host-2 waited for a person and blocked the installation", "host host-2", nil,
			[]string{"host-1", "host-3"}},
		{"a host whose boot order was corrected is not the cause", func(s *site) {
			s.host(30, "host-2", lifecycle.HostPendingUserAction, lifecycle.WrongBootOrder)
			s.host(40, "host-2", lifecycle.HostInstallingInProgress, "")
			s.cluster(90, lifecycle.ClusterFailed, tooLong)
			s.stopOthers(90)
		}, `The installation failed in the stage "Installing"`, "cluster north", nil,
			[]string{"host-1", "host-2", "host-3"}},
		{"an operator does not become available", func(s *site) {
			for _, row := range s.Hosts {
				s.stage(30, row.Hostname, models.HostStageDone)
				s.host(30, row.Hostname, lifecycle.HostInstalled, "")
			}
			s.cluster(30, lifecycle.ClusterFinalizing, "")
			s.Cluster.MonitoredOperators = []*models.MonitoredOperator{
				{Name: "console", Status: models.OperatorStatusAvailable, OperatorType: models.OperatorTypeBuiltin},
				{Name: "odf", Status: models.OperatorStatusFailed, StatusInfo: "no disk", OperatorType: "olm"}}
			s.cluster(90, lifecycle.ClusterFailed, "The cluster did not finish in time.")
			s.stopOthers(90)
		}, "Operator odf did not become available", "operator odf", nil, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newSite(t, "host-1", "host-2", "host-3")
			for _, row := range s.Hosts {
				s.host(5, row.Hostname, lifecycle.HostInstalling, "")
			}
			s.cluster(5, lifecycle.ClusterInstalling, "")
			test.do(s)
			p := s.derive()
			require.NotNil(t, p.Failure)
			require.Equal(t, test.title, p.Failure.Title)
			require.Equal(t, test.cause, p.Failure.Cause.Kind+" "+p.Failure.Cause.Name)
			require.Equal(t, append([]string{}, test.others...), names(p.Failure.Others))
			require.Equal(t, append([]string{}, test.stopped...), names(p.Failure.Stopped))
			require.False(t, p.Failure.Cause.At.IsZero())
			require.Contains(t, p.Failure.Advice[len(p.Failure.Advice)-1].Text, "reset the cluster")
		})
	}
}

func TestFailure_preparation(t *testing.T) {
	s := newSite(t, "host-1")
	s.host(5, "host-1", lifecycle.HostPreparingFailed, "could not pull quay.io/x: manifest unknown")
	s.cluster(9, lifecycle.ClusterReady, "The installation could not be prepared.")
	s.Cluster.LastInstallationPreparation = models.LastInstallationPreparation{
		Status: models.LastInstallationPreparationStatusFailed, Reason: "host host-1: could not pull an image"}
	f := s.derive().Failure
	require.Equal(t, "Host host-1 could not be prepared", f.Title)
	require.Equal(t, "Could not pull quay.io/x: manifest unknown.", f.Cause.Text)
	require.Equal(t, "mirror", f.Advice[0].Page)
	require.NotContains(t, f.Advice[len(f.Advice)-1].Text, "reset the cluster")
}

func TestFailure_noneWhileInstallingOrCancelled(t *testing.T) {
	for _, status := range []string{lifecycle.ClusterInstalling, lifecycle.ClusterCancelled,
		lifecycle.ClusterInstalled} {
		s := newSite(t, "host-1")
		s.cluster(5, status, "")
		require.Nil(t, s.derive().Failure, status)
	}
}

func TestAdvise_namesTheRemedyOfTheCause(t *testing.T) {
	for _, test := range []struct{ name, text, stage, page string }{
		{"silent agent", lifecycle.InfoSilent, "", "host"},
		{"wrong boot order", lifecycle.WrongBootOrder, "Rebooting", "host"},
		{"unknown authority", "tls: x509: certificate signed by unknown authority", "Installing", "mirror"},
		{"name that does not resolve", "dial tcp: lookup mirror.site: no such host", "Installing", "doctor"},
		{"missing image", "manifest unknown", "Installing", "mirror"},
		{"disk", "The installation was aborted.", "Writing image to disk", "host"},
		{"host that does not join", "The host has been in the stage too long.", "Configuring", "host"},
		{"unknown reason", "exit status 3", "Installing", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			steps := advise(Part{Kind: "host", Stage: test.stage, Text: test.text}, "")
			require.Equal(t, test.page, steps[0].Page)
			for _, step := range steps {
				require.True(t, strings.HasSuffix(step.Text, "."), step.Text)
			}
		})
	}
}
