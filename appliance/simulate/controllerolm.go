package simulate

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/openshift/assisted-service/models"
	"go.yaml.in/yaml/v3"
)

// Texts of the real controller about operators that do not become ready.
const (
	csvFailed   = "InstallComponentFailed: the deployment of the operator did not become available"
	csvTimedOut = "Waiting for operator timed out"
)

// bringUpOLM installs the OLM operators in the order of the real controller's stages. It waits
// until they exist, applies the custom resources from the appliance, and waits until each operator
// is ready or has failed. A failed operator does not fail the installation.
func (c *controller) bringUpOLM(ctx context.Context, names []string) error {
	if err := c.enter(ctx, models.FinalizingStageWaitingForOlmOperatorsCsvInitialization); err != nil ||
		len(names) == 0 {
		return err
	}
	if err := c.group.pause(ctx, operatorStep); err != nil {
		return err
	}
	if err := c.enter(ctx, models.FinalizingStageApplyingOlmManifests); err != nil {
		return err
	}
	if err := c.applyCustomResources(ctx, names); err != nil {
		return err
	}
	if err := c.enter(ctx, models.FinalizingStageWaitingForOlmOperatorsCsv); err != nil {
		return err
	}
	failing := slices.DeleteFunc(slices.Clone(names),
		func(name string) bool { return !c.group.Faults.ofOperator(OperatorFails, name) })
	stuck := slices.DeleteFunc(slices.Clone(names),
		func(name string) bool { return !c.group.Faults.ofOperator(OperatorStuck, name) })
	ready := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return slices.Contains(failing, name) ||
			slices.Contains(stuck, name)
	})
	if err := c.bringUp(ctx, ready); err != nil {
		return err
	}
	if err := c.fail(ctx, failing, csvFailed); err != nil || len(stuck) == 0 {
		return err
	}
	if err := c.untilStageTimedOut(ctx, models.FinalizingStageWaitingForOlmOperatorsCsv); err != nil {
		return err
	}
	return c.fail(ctx, stuck, csvTimedOut)
}

// fail reports operators as failed.
func (c *controller) fail(ctx context.Context, names []string, reason string) error {
	for _, name := range names {
		report := &models.OperatorMonitorReport{Name: name, Status: models.OperatorStatusFailed, StatusInfo: reason}
		if err := c.forever(ctx, func() error { return c.api.reportOperator(ctx, c.id, report) }); err != nil {
			return err
		}
	}
	return nil
}

// untilStageTimedOut waits until the appliance reports that a stage has timed out.
func (c *controller) untilStageTimedOut(ctx context.Context, stage models.FinalizingStage) error {
	for {
		state, err := c.api.cluster(ctx, c.id, true)
		if err == nil && state.Progress != nil && state.Progress.FinalizingStage == stage &&
			state.Progress.FinalizingStageTimedOut {
			return nil
		}
		if err := c.group.rest(ctx, reportInterval); err != nil {
			return err
		}
	}
}

// applyCustomResources downloads the file with custom resources and parses it like the real
// controller and oc.
func (c *controller) applyCustomResources(ctx context.Context, names []string) error {
	var text bytes.Buffer
	err := c.forever(ctx, func() error {
		text.Reset()
		return c.api.clusterFile(ctx, c.id, "custom_manifests.json", &text)
	})
	if err != nil {
		return err
	}
	var manifests []struct{ Name, Content string }
	if err := json.Unmarshal(text.Bytes(), &manifests); err != nil {
		return fmt.Errorf("custom_manifests.json is not a list of manifests: %w", err)
	}
	for _, manifest := range manifests {
		if !slices.Contains(names, manifest.Name) {
			continue // the operator was ready before the controller was restarted
		}
		content, err := base64.StdEncoding.DecodeString(manifest.Content)
		if err != nil {
			return fmt.Errorf("the custom resources of operator %s are not base64: %w", manifest.Name, err)
		}
		if err := readObjects(content); err != nil {
			return fmt.Errorf("the custom resources of operator %s can't be applied: %w", manifest.Name, err)
		}
	}
	return nil
}

// readObjects checks that a text contains YAML documents of Kubernetes objects, at least one.
func readObjects(text []byte) error {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	for count := 0; ; count++ {
		var object struct {
			APIVersion string `yaml:"apiVersion"`
			Kind       string
			Metadata   struct{ Name string }
		}
		err := decoder.Decode(&object)
		switch {
		case errors.Is(err, io.EOF) && count > 0:
			return nil
		case errors.Is(err, io.EOF):
			return errors.New("the YAML contains no object")
		case err != nil:
			return err
		case object.APIVersion == "" || object.Kind == "" || object.Metadata.Name == "":
			return fmt.Errorf("object %d has no apiVersion, kind or name", count+1)
		}
	}
}
