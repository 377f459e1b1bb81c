package lifecycle

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"
)

func TestTimeouts_defaults(t *testing.T) {
	limits := DefaultTimeouts()
	require.Equal(t, 3*time.Minute, limits.HostDisconnected)
	require.Equal(t, 80*time.Minute, limits.SingleNodeReboot)
	for prefix, structure := range map[string]any{"": limits, "stages.": limits.Stages,
		"finalizing_stages.": limits.FinalizingStages} {
		for field, value := range reflect.ValueOf(structure).Fields() {
			if value.Kind() == reflect.Int64 {
				require.Positive(t, value.Int(), "%s has no default", field.Name)
				require.NotEmpty(t, TimeoutHelp[prefix+field.Tag.Get("mapstructure")],
					"TimeoutHelp does not explain %s", field.Name)
			}
		}
	}
	given := Timeouts{UserAction: time.Minute, Stages: StageTimeouts{Joined: time.Second}}.OrDefaults()
	require.Equal(t, time.Minute, given.UserAction)
	require.Equal(t, time.Second, given.Stages.Joined)
	require.Equal(t, time.Hour, given.Stages.Configuring)
}

func TestTimeouts_stagesByReportedName(t *testing.T) {
	limits := DefaultTimeouts()
	for stage, want := range map[models.HostStage]time.Duration{
		models.HostStageStartingInstallation: 30 * time.Minute, models.HostStageWaitingForControlPlane: time.Hour,
		models.HostStageWaitingForController: time.Hour, models.HostStageWaitingForBootkube: time.Hour,
		models.HostStageInstalling: time.Hour, models.HostStageJoined: time.Hour,
		models.HostStageWritingImageToDisk: 30 * time.Minute, "Copying registry data to disk": 90 * time.Minute,
		models.HostStageRebooting: 40 * time.Minute, models.HostStageConfiguring: time.Hour,
		models.HostStageWaitingForIgnition: 24 * time.Hour, "unknown": time.Hour,
	} {
		require.Equal(t, want, limits.Stage(stage, false), stage)
	}
	require.Equal(t, 80*time.Minute, limits.Stage(models.HostStageRebooting, true))
	for stage, want := range map[models.FinalizingStage]time.Duration{
		models.FinalizingStageWaitingForClusterOperators:              10 * time.Hour,
		models.FinalizingStageAddingRouterCa:                          70 * time.Minute,
		models.FinalizingStageApplyingOlmManifests:                    10 * time.Minute,
		models.FinalizingStageWaitingForOlmOperatorsCsvInitialization: 70 * time.Minute,
		models.FinalizingStageWaitingForOlmOperatorsCsv:               70 * time.Minute,
		models.FinalizingStageWaitingForOLMOperatorSetupJobs:          10 * time.Minute,
		models.FinalizingStageDone:                                    70 * time.Minute,
		"unknown":                                                     70 * time.Minute,
	} {
		require.Equal(t, want, limits.FinalizingStage(stage, nil), stage)
	}
}

// TestTimeouts_eachStageHasItsOwnLimit gives all limits of stages different values. The defaults of
// many of them are equal, also to the limit of unknown stages.
func TestTimeouts_eachStageHasItsOwnLimit(t *testing.T) {
	var limits Timeouts
	for _, structure := range []any{&limits.Stages, &limits.FinalizingStages} {
		given := int64(0)
		for _, value := range reflect.ValueOf(structure).Elem().Fields() {
			given++
			value.SetInt(given)
		}
	}
	named := func(field reflect.StructField) string {
		words := strings.ReplaceAll(field.Tag.Get("mapstructure"), "_", " ")
		return strings.ToUpper(words[:1]) + words[1:]
	}
	for field, value := range reflect.ValueOf(limits.Stages).Fields() {
		stage := models.HostStage(named(field))
		require.EqualValues(t, value.Int(), limits.Stage(stage, false), "Timeouts.Stage lacks the stage %q", stage)
	}
	for field, value := range reflect.ValueOf(limits.FinalizingStages).Fields() {
		at := slices.IndexFunc(FinalizingStages(), func(stage models.FinalizingStage) bool {
			return strings.EqualFold(string(stage), named(field))
		})
		require.GreaterOrEqual(t, at, 0, "%s is not the name of a stage", field.Name)
		stage := FinalizingStages()[at]
		require.EqualValues(t, value.Int(), limits.FinalizingStage(stage, nil),
			"FinalizingStageTimeouts.of lacks the stage %q", stage)
	}
}
