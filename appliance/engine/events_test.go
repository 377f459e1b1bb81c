package engine

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-openapi/strfmt"
	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"landfall/appliance/engine/event"
	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/engine/record"
	"landfall/appliance/engine/steps"
	"landfall/appliance/fault"
	"landfall/appliance/journal"
	"landfall/store"
)

// upstreamEvents lists the events of the Assisted Installer. An empty text marks an event
// that Landfall writes, as the tests of this file show. Any other text is the reason why Landfall
// does not write the event.
func upstreamEvents() map[string]string {
	const (
		oneTransaction = "a request is one transaction: it is committed completely or rejected with the reason"
		noImageFiles   = "each download generates its image from the recipe of image_info_updated; no image file is " +
			"stored, reused or deleted"
		notDeleted = "inactive objects are not deleted, and a deletion takes effect immediately"
	)
	return map[string]string{
		"cancel_install_start_failed": oneTransaction, "cancel_install_commit_failed": oneTransaction,
		"host_registration_setting_properties_failed": oneTransaction,
		"host_set_status_failed":                      oneTransaction, "host_reset_fetch_failed": oneTransaction,
		"host_cancel_installation_failed": oneTransaction,
		"infra_env_registration_failed": "a rejected infra-env does not exist, so no event can refer to it; the " +
			"response contains the reason",
		"expired_image_deleted": noImageFiles, "generate_image_fetch_failed": noImageFiles,
		"existing_image_reused": noImageFiles, "generate_image_format_failed": noImageFiles,
		"generate_minimal_iso_failed": noImageFiles, "upload_image_failed": noImageFiles,
		"ignition_config_image_generated":       noImageFiles,
		"after_inactivity_cluster_deregistered": notDeleted, "inactive_clusters_deregistered": notDeleted,
		"clusters_permanently_deleted": notDeleted,
		"api_ingress_vip_timed_out":    "the cluster's validation api-vips-defined fails until a lease arrives",
		"host_boot_logs_uploaded":      "the API accepts logs of hosts and of the controller, but no boot logs",
		"host_approved_updated":        "hosts are only approved through the Kubernetes API, which is disabled",

		"host_media_disconnected": "", "cluster_registration_succeeded": "", "cluster_deregister_failed": "",
		"cluster_deregistered": "", "cluster_validation_failed": "",
		"cluster_validation_fixed": "", "cluster_installation_completed": "", "cluster_installation_failed": "",
		"cluster_installation_canceled": "",
		"cancel_installation_failed":    "", "cluster_status_updated": "", "cluster_finalizing_stage_updated": "",
		"cluster_installation_reset": "",
		"reset_installation_failed":  "", "api_ingress_vip_updated": "", "prepare_installation_failed": "",
		"cluster_prepare_installation_started": "",
		"installation_preparing_timed_out":     "", "cluster_degraded_OLM_operators_failed": "",
		"cluster_operator_report": "", "cluster_operator_status": "",
		"finalizing_stage_timed_out": "", "host_deregistered": "", "host_installer_args_applied": "",
		"host_bootstrap_set": "", "host_status_updated": "",
		"host_stage_timed_out": "", "host_role_updated": "", "image_status_updated": "",
		"host_installation_cancelled": "", "host_installation_started": "",
		"host_installation_reset": "", "host_installation_reset_failed": "",
		"user_required_complete_installation_reset": "", "host_validation_failed": "",
		"host_validation_fixed": "", "quick_disk_format_performed": "", "quick_disk_format_skipped": "",
		"infra_env_registered": "", "infra_env_deregister_failed": "",
		"infra_env_deregistered": "", "install_config_applied": "", "proxy_settings_changed": "",
		"disk_speed_slower_than_supported":       "",
		"host_discovery_ignition_config_applied": "", "host_logs_uploaded": "", "cluster_logs_uploaded": "",
		"host_registration_succeeded": "", "host_bind_succeeded": "",
		"host_unbind_succeeded": "", "host_install_progress_updated": "", "host_registration_failed": "",
		"host_bind_failed": "", "host_unbind_failed": "",
		"image_info_updated": "", "upgrade_agent_started": "", "upgrade_agent_finished": "", "upgrade_agent_failed": "",
		"validations_ignored": "",
		"reboots_for_node":    "", // reported by the controller in the cluster
	}
}

func TestEventList_matchesAssistedInstaller(t *testing.T) {
	data := os.Getenv("LANDFALL_REALDATA")
	if data == "" {
		t.Skip("LANDFALL_REALDATA is not set")
	}
	text, err := os.ReadFile(filepath.Join(data, "assisted", "events.yaml"))
	require.NoError(t, err)
	var list struct {
		Events []struct {
			Name       string
			Severity   string
			Properties map[string]any
		} `yaml:"x-events"`
	}
	require.NoError(t, yaml.Unmarshal(text, &list))
	require.Len(t, list.Events, 80)
	upstream := upstreamEvents()
	for _, event := range list.Events {
		_, ok := upstream[event.Name]
		require.True(t, ok, event.Name)
	}
	require.Len(t, upstream, 80)
}

// mentions returns the files of the package that quote each text.
func mentions(t *testing.T, texts []string) map[string][]string {
	t.Helper()
	names, err := filepath.Glob("event/*.go")
	require.NoError(t, err)
	found := make(map[string][]string)
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		code, err := os.ReadFile(name)
		require.NoError(t, err)
		for _, text := range texts {
			if bytes.Contains(code, []byte(`"`+text+`"`)) {
				found[text] = append(found[text], name)
			}
		}
	}
	return found
}

func TestEventList_unusedEventsHaveAReason(t *testing.T) {
	var written []string
	for name, reason := range upstreamEvents() {
		if reason == "" && name != "reboots_for_node" {
			written = append(written, name)
		}
	}
	found := mentions(t, written)
	for _, name := range written {
		require.NotEmpty(t, found[name], "no code writes the event %s", name)
	}
	require.Len(t, written, 59)
}

// eventsOf returns the events of a filter, oldest first.
func (b *harness) eventsOf(filter event.Filter) []*models.Event {
	b.Helper()
	page, err := b.Events(filter)
	require.NoError(b, err)
	return page.Events
}

// event returns the newest event of a name and its properties. It fails if there is none.
func (b *harness) event(name string) (*models.Event, map[string]any) {
	b.Helper()
	events := b.eventsOf(event.Filter{})
	for _, ev := range slices.Backward(events) {
		if ev.Name != name {
			continue
		}
		about := make(map[string]any)
		if ev.Props != "" {
			require.NoError(b, json.Unmarshal([]byte(ev.Props), &about))
		}
		return ev, about
	}
	b.Fatalf("the event %s is missing", name)
	return nil, nil
}

// requireEvent asserts that an event with the name, the severity and the properties exists.
func (b *harness) requireEvent(name, severity string, properties ...string) {
	b.Helper()
	ev, about := b.event(name)
	require.Equal(b, severity, *ev.Severity, name)
	require.Equal(b, models.EventCategoryUser, ev.Category, name)
	for _, property := range properties {
		require.Contains(b, about, property, name)
	}
}

func TestEvents_installation(t *testing.T) {
	b := newHarness(t)
	b.host(b.infraEnvOf(b.clusterOfThree().ID), 5) // the engine suggests a role
	cluster, h := b.installed()
	for name, properties := range map[string][]string{
		"cluster_registration_succeeded": nil, "infra_env_registered": nil, "cluster_prepare_installation_started": nil,
		"cluster_installation_completed": nil,
		"host_registration_succeeded":    {"host_name"}, "host_status_updated": {"host_name", "src_status",
			"new_status",
			"info"}, "host_validation_fixed": {"host_name", "validation_id"},
		"host_role_updated": {"host_name", "suggested_role"}, "host_bootstrap_set": {"host_name"},
		"host_install_progress_updated": {"host_name", "event"},
		"image_status_updated":          {"host_name", "image_status", "result"},
		"cluster_status_updated":        {"src_status", "cluster_status", "status_info"},
		"cluster_validation_fixed":      {"validation_id", "validation_msg"},
	} {
		b.requireEvent(name, models.EventSeverityInfo, properties...)
	}
	require.NoError(t, b.StoreHostLogs(t.Context(), cluster, h.id, strings.NewReader("x")))
	require.NoError(t, b.StoreControllerLogs(t.Context(), cluster, strings.NewReader("x")))
	b.requireEvent("host_logs_uploaded", models.EventSeverityInfo, "host_name")
	b.requireEvent("cluster_logs_uploaded", models.EventSeverityInfo)
	ev, _ := b.event("host_registration_succeeded")
	require.Equal(t, cluster, ev.ClusterID.String())
	require.Equal(t, h.id, ev.HostID.String())
	require.Equal(t, h.env, ev.InfraEnvID.String())
}

func TestEvents_cancelAndReset(t *testing.T) {
	b := newHarness(t)
	cluster, h := b.installing()
	_, err := b.CancelInstallation(t.Context(), cluster)
	require.NoError(t, err)
	b.requireEvent("cluster_installation_canceled", models.EventSeverityInfo)
	b.requireEvent("host_installation_cancelled", models.EventSeverityInfo, "host_name")
	_, err = b.ResetCluster(t.Context(), cluster)
	require.NoError(t, err)
	h.require(lifecycle.HostResettingPendingUserAction)
	b.requireEvent("cluster_installation_reset", models.EventSeverityInfo)
	b.requireEvent("host_installation_reset", models.EventSeverityInfo, "host_name")
	b.requireEvent("user_required_complete_installation_reset", models.EventSeverityInfo, "host_name")
}

func TestEvents_failedAndSlowInstallation(t *testing.T) {
	b := newHarness(t)
	cluster, h := b.installing()
	require.NoError(t, h.reply(&models.StepReply{StepType: models.StepTypeInstall, ExitCode: 1, Error: "no"}))
	b.requireCluster(cluster, lifecycle.ClusterFailed)
	b.requireEvent("cluster_installation_failed", models.EventSeverityCritical, "failure_reason")

	late := newHarness(t)
	late.options.Timeouts.HostPreparing = 24 * time.Hour
	cluster, env := late.singleNode()
	h = late.host(env, 1)
	late.startInstallation(cluster)
	late.pass(2*late.options.Timeouts.ClusterPreparing, h) // the preparation is not run
	late.requireEvent("installation_preparing_timed_out", models.EventSeverityWarning, "reason")
}

func TestEvents_rejectedRequests(t *testing.T) {
	b := newHarness(t)
	cluster, env := b.singleNode()
	h := b.host(env, 1)
	request := func(operation string) journal.Request {
		return journal.Request{Operation: operation, ID: "6e9d7b8e-3c5a-4c39-a4ac-5a8a0a9fbd31", Cluster: cluster,
			InfraEnv: env, Host: h.id}
	}
	for operation, c := range map[string]struct {
		event string
		ask   func(journal.Request) error
	}{
		"V2CancelInstallation": {"cancel_installation_failed", func(r journal.Request) error {
			_, err := b.CancelInstallation(journal.WithRequest(t.Context(), r), cluster)
			return err
		}},
		"v2ResetCluster": {"reset_installation_failed", func(r journal.Request) error {
			_, err := b.ResetCluster(journal.WithRequest(t.Context(), r), cluster)
			return err
		}},
		"DeregisterInfraEnv": {"infra_env_deregister_failed",
			func(r journal.Request) error { return b.DeregisterInfraEnv(journal.WithRequest(t.Context(), r), env) }},
		"BindHost": {"host_bind_failed", func(r journal.Request) error {
			_, err := b.BindHost(journal.WithRequest(t.Context(), r), env, h.id, cluster)
			return err
		}},
		"UnbindHost": {"host_unbind_failed", func(r journal.Request) error {
			_, err := b.UnbindHost(journal.WithRequest(t.Context(), r), env, h.id)
			return err
		}},
		"v2ResetHost": {"host_installation_reset_failed", func(r journal.Request) error {
			_, err := b.ResetHost(journal.WithRequest(t.Context(), r), env, h.id)
			return err
		}},
	} {
		err := c.ask(request(operation))
		b.requireRejected(err, fault.Conflict, "")
		b.requireEvent(c.event, models.EventSeverityError, "error")
		ev, about := b.event(c.event)
		require.Equal(t, err.Error(), about["error"])
		require.Equal(t, cluster, ev.ClusterID.String())
		require.Equal(t, "6e9d7b8e-3c5a-4c39-a4ac-5a8a0a9fbd31", ev.RequestID.String())
	}
	b.startInstallation(cluster)
	b.requireRejected(b.DeregisterCluster(journal.WithRequest(t.Context(), request("v2DeregisterCluster")), cluster, false),
		fault.Conflict, "")
	b.requireEvent("cluster_deregister_failed", models.EventSeverityError, "error")

	before := len(b.eventsOf(event.Filter{}))
	_, err := b.CancelInstallation(journal.WithRequest(t.Context(), request("V2CancelInstallation")),
		"00000000-0000-4000-8000-000000000000")
	b.requireRejected(err, fault.NotFound, "")
	require.Len(t, b.eventsOf(event.Filter{}), before, "unknown objects have no events")
}

func TestEvents_disksProxiesAndAgents(t *testing.T) {
	b := newHarness(t)
	cluster, env := b.singleNode()
	h := b.host(env, 1)
	_, err := b.UpdateCluster(t.Context(), cluster, &models.V2ClusterUpdateParams{NoProxy: conv.Pointer("site.test")})
	require.NoError(t, err)
	b.requireEvent("proxy_settings_changed", models.EventSeverityInfo)
	slow, err := json.Marshal(models.DiskSpeedCheckResponse{IoSyncDuration: 47, Path: "/dev/sda"})
	require.NoError(t, err)
	require.NoError(t, h.reply(&models.StepReply{StepType: models.StepTypeInstallationDiskSpeedCheck, StepID: "x",
		Output: string(slow)}))
	b.requireEvent("disk_speed_slower_than_supported", models.EventSeverityWarning, "host_disk", "fdatasync_duration")
	for result, want := range map[models.UpgradeAgentResult][2]string{
		models.UpgradeAgentResultSuccess: {"upgrade_agent_finished", models.EventSeverityInfo},
		models.UpgradeAgentResultFailure: {"upgrade_agent_failed", models.EventSeverityError},
	} {
		answer, err := json.Marshal(models.UpgradeAgentResponse{AgentImage: "quay.io/parts/agent:2", Result: result})
		require.NoError(t, err)
		require.NoError(t, h.reply(&models.StepReply{StepType: models.StepTypeUpgradeAgent, StepID: "x",
			Output: string(answer)}))
		b.requireEvent(want[0], want[1], "host_name", "agent_image")
	}
	require.NoError(t, b.update(t.Context(), func(c *change) error {
		row, err := c.cluster(cluster)
		if err != nil {
			return err
		}
		row.Release = &record.Release{Agent: "quay.io/parts/agent:3"}
		c.saveCluster(row)
		h, err := c.hostIn(env, h.id)
		if err != nil {
			return err
		}
		h.API.DisksToBeFormatted, h.API.SkipFormattingDisks = "/dev/disk/by-id/a,/dev/disk/by-id/b", "/dev/disk/by-id/b"
		c.saveHost(h)
		return errors.Join(c.emitDiskEvents(h), c.emitUpgradeStarted(h))
	}))
	b.requireEvent("quick_disk_format_performed", models.EventSeverityInfo, "disk_name", "disk_id")
	b.requireEvent("quick_disk_format_skipped", models.EventSeverityInfo, "disk_name", "disk_id")
	b.requireEvent("upgrade_agent_started", models.EventSeverityInfo, "agent_image")
	_, about := b.event("quick_disk_format_skipped")
	require.Equal(t, "sdb", about["disk_name"])
	require.False(t, steps.Upgrades(&models.Host{Status: conv.Pointer(lifecycle.HostInstalling),
		DiscoveryAgentVersion: "a"}, "b"))
}

func TestEvents_lostMediaAreAnError(t *testing.T) {
	b := newHarness(t)
	_, env := b.singleNode()
	h := b.host(env, 1)
	require.NoError(t, h.reply(&models.StepReply{StepType: models.StepTypeInventory, StepID: "x", ExitCode: 256}))
	b.requireEvent("host_media_disconnected", models.EventSeverityError, "host_name")
	before := b.options.DB.Revision()
	require.NoError(t, h.reply(&models.StepReply{StepType: models.StepTypeInventory, StepID: "x", ExitCode: 256}))
	require.Equal(t, before, b.options.DB.Revision(), "a repeated report writes nothing")
}

func TestEvents_query(t *testing.T) {
	b := newHarness(t)
	cluster, env := b.singleNode()
	first, second := b.host(env, 1), b.host(env, 2)
	require.NoError(t, b.DeregisterHost(t.Context(), env, second.id))
	count := func(f event.Filter) int {
		f.ClusterID = cluster
		return len(b.eventsOf(f))
	}
	ofCluster, ofFirst, ofSecond := count(event.Filter{ClusterLevel: true}),
		count(event.Filter{HostIDs: []string{first.id}}), count(event.Filter{HostIDs: []string{second.id}})
	require.NotZero(t, ofCluster*ofFirst*ofSecond)
	require.Equal(t, ofSecond, count(event.Filter{DeletedHosts: true}))
	require.Equal(t, ofCluster+ofSecond, count(event.Filter{DeletedHosts: true, ClusterLevel: true}),
		"filters without effect")
	require.Equal(t, ofFirst+ofSecond, count(event.Filter{DeletedHosts: true, HostIDs: []string{first.id}}))
	require.Equal(t, ofCluster+ofFirst, count(event.Filter{ClusterLevel: true, HostIDs: []string{first.id}}))
	require.Equal(t, count(event.Filter{}), ofCluster+ofFirst+ofSecond)
	require.Zero(t, count(event.Filter{Categories: []string{"metrics"}}))
}

// newLimitedHarness returns a harness with limits for events.
func newLimitedHarness(t *testing.T, limits event.Limits) *harness {
	t.Helper()
	b := newHarness(t)
	b.options.EventLimits = limits.OrDefaults()
	return b
}

func TestEventLimits_limitIsReportedOnce(t *testing.T) {
	b := newLimitedHarness(t, event.Limits{Burst: 40, PerHour: 60})
	cluster, env := b.singleNode()
	h := b.host(env, 1)
	id, host := strfmt.UUID(cluster), strfmt.UUID(h.id)
	infraEnv := strfmt.UUID(env)
	report := func(severity string) {
		require.NoError(t, b.ReportEvent(t.Context(), &models.Event{
			Name: "chatter", Severity: &severity, Message: conv.Pointer("again"), ClusterID: &id, InfraEnvID: &infraEnv,
			HostID: &host,
		}))
	}
	for range 200 {
		report("warning")
	}
	names := b.names(event.Filter{HostIDs: []string{h.id}})
	require.LessOrEqual(t, len(names), 41)
	require.Equal(t, event.LeftOut, names[len(names)-1])
	require.Equal(t, 1, strings.Count(fmt.Sprint(names), event.LeftOut))
	report("critical")
	require.Equal(t, "chatter", last(b.names(event.Filter{HostIDs: []string{h.id}})),
		"critical events are always written")
	quiet := len(b.names(event.Filter{ClusterID: cluster, ClusterLevel: true}))
	require.NoError(t, b.ReportEvent(t.Context(), &models.Event{Name: "other", Severity: conv.Pointer("info"),
		Message: conv.Pointer("x"), ClusterID: &id}))
	require.Len(t, b.names(event.Filter{ClusterID: cluster, ClusterLevel: true}), quiet+1,
		"each host has its own budget")

	b.clock.Advance(time.Hour)
	report("warning")
	events := b.eventsOf(event.Filter{HostIDs: []string{h.id}})
	require.Equal(t, event.LeftOut, events[len(events)-2].Name)
	require.Regexp(t, `^1[5-9]\d events of this host were left out; new events are recorded again\.$`,
		*events[len(events)-2].Message)
	require.Equal(t, "chatter", events[len(events)-1].Name)
}

func last(list []string) string { return list[len(list)-1] }

func TestEventLimits_largeEventCostsMore(t *testing.T) {
	b := newLimitedHarness(t, event.Limits{Burst: 100, PerHour: 60})
	cluster, _ := b.singleNode()
	id := strfmt.UUID(cluster)
	for range 20 {
		require.NoError(t, b.ReportEvent(t.Context(), &models.Event{
			Name: "large", Severity: conv.Pointer("info"), Message: conv.Pointer("x"), ClusterID: &id,
			Props: `"` + strings.Repeat("x", 60<<10) + `"`,
		}))
	}
	require.Equal(t, 1, strings.Count(strings.Join(b.names(event.Filter{ClusterID: cluster}), " "), "large"))
}

func TestEventLimits_oldEventsAreRemovedWithNotice(t *testing.T) {
	b := newLimitedHarness(t, event.Limits{Each: 20 << 10, All: 64 << 20})
	cluster, env := b.singleNode()
	h := b.host(env, 1)
	id := strfmt.UUID(cluster)
	require.NoError(t, b.options.DB.Update(t.Context(), func(tx *store.Tx) error { return nil }))
	for i := range 100 {
		require.NoError(t, b.ReportEvent(t.Context(), &models.Event{Name: "n", Severity: conv.Pointer("info"),
			Message: conv.Pointer(fmt.Sprint("number ", i)), ClusterID: &id}))
	}
	ofHost := len(b.names(event.Filter{HostIDs: []string{h.id}}))
	require.NoError(t, b.TrimEvents(t.Context()))
	events := b.eventsOf(event.Filter{ClusterID: cluster, ClusterLevel: true})
	require.Greater(t, len(events), 30)
	require.Less(t, len(events), 90)
	require.Equal(t, event.Removed, events[len(events)-1].Name)
	require.Equal(t, "number 99", *events[len(events)-2].Message)
	require.Len(t, b.names(event.Filter{HostIDs: []string{h.id}}), ofHost, "events of others are kept")
	require.NoError(t, b.TrimEvents(t.Context()))
	require.Len(t, b.eventsOf(event.Filter{ClusterID: cluster, ClusterLevel: true}), len(events),
		"no events are left to remove")

	b.options.EventLimits.All = 10 << 10
	require.NoError(t, b.TrimEvents(t.Context()))
	var size int
	require.NoError(t, b.options.DB.View(func(tx *store.Tx) error {
		return event.Rows.Sizes(tx, "", func(_ string, bytes int) error { size += bytes; return nil })
	}))
	require.Less(t, size, 11<<10)
}
