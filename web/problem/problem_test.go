package problem

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	openapi "github.com/go-openapi/errors"
	"github.com/go-openapi/strfmt"
	"github.com/labstack/echo/v4"
	"github.com/openshift/assisted-service/models"
	"github.com/stretchr/testify/require"

	"landfall/appliance/fault"
	"landfall/store"
)

func TestProblem_apiShape(t *testing.T) {
	for name, shape := range map[string]struct {
		err  *Error
		body string
	}{
		"400": {BadRequest("the name %q is taken", "east"),
			`{"code":"400","href":"","id":400,"kind":"Error","reason":"the name \"east\" is taken"}`},
		"401": {Unauthorized("no token"), `{"code":401,"message":"no token"}`},
		"403": {Forbidden("not yours"), `{"code":403,"message":"not yours"}`},
		"404": {NotFound("no cluster"), `{"code":"404","href":"","id":404,"kind":"Error","reason":"no cluster"}`},
		"409": {Conflict("installing"), `{"code":"409","href":"","id":409,"kind":"Error","reason":"installing"}`},
		"422": {&Error{Status: 422, Reason: "name is no DNS label"}, `{"code":605,"message":"name is no DNS label"}`},
		"503": {Unavailable("the mirror is down"),
			`{"code":"503","href":"","id":503,"kind":"Error","reason":"the mirror is down"}`},
	} {
		t.Run(name, func(t *testing.T) {
			recorder := httptest.NewRecorder()
			require.NoError(t, Write(recorder, httptest.NewRequest(http.MethodGet, "/", nil), shape.err))
			require.Equal(t, shape.err.Status, recorder.Code)
			require.Equal(t, "application/json", recorder.Header().Get("Content-Type"))
			require.JSONEq(t, shape.body, recorder.Body.String())
		})
	}
}

func TestProblem_matchesModel(t *testing.T) {
	encoded, err := json.Marshal(Conflict("installing").Body())
	require.NoError(t, err)
	var model models.Error
	require.NoError(t, json.Unmarshal(encoded, &model))
	require.NoError(t, model.Validate(nil))
}

func TestProblem_headHasNoBody(t *testing.T) {
	recorder := httptest.NewRecorder()
	require.NoError(t, Write(recorder, httptest.NewRequest(http.MethodHead, "/", nil), NotFound("no image")))
	require.Equal(t, http.StatusNotFound, recorder.Code)
	require.Empty(t, recorder.Body.String())
}

func TestFrom_anyError(t *testing.T) {
	cause := errors.New("disk full")
	for name, known := range map[string]struct {
		err    error
		status int
	}{
		"a wrapped problem":       {fmt.Errorf("install: %w", Conflict("installing")), 409},
		"an error of echo":        {echo.ErrNotFound, 404},
		"a body too large":        {fmt.Errorf("read: %w", &http.MaxBytesError{Limit: 5}), 413},
		"the client disconnected": {fmt.Errorf("read: %w", context.Canceled), 499},
		"a failed write":          {fmt.Errorf("update: %w", &store.WriteError{Path: "/data", Err: cause}), 503},
		"invalid":                 {fmt.Errorf("update: %w", fault.New(fault.Invalid, "no name")), 400},
		"forbidden":               {fault.New(fault.Forbidden, "not yours"), 403},
		"not found":               {fault.Sentinel(fault.NotFound, "no cluster"), 404},
		"conflict":                {fault.New(fault.Conflict, "installing"), 409},
		"too large":               {fault.New(fault.TooLarge, "over 5 bytes"), 413},
		"schema":                  {fault.New(fault.Schema, "no DNS label"), 422},
		"unavailable":             {fault.New(fault.Unavailable, "no mirror"), 503},
		"no space":                {fault.New(fault.NoSpace, "disk full"), 507},
		"unauthenticated":         {fault.New(fault.Unauthenticated, "no token"), 401},
		"an unclassified error":   {fmt.Errorf("write: %w", cause), 500},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, known.status, From(known.err).Status)
		})
	}
	require.ErrorIs(t, From(fmt.Errorf("write: %w", cause)), cause)
}

func TestFrom_schemaFailures(t *testing.T) {
	err := Schema(openapi.CompositeValidationError(
		openapi.CompositeValidationError(openapi.Required("name", "body", nil)),
		openapi.FailedPattern("vip", "body", "^x$", "y"),
	))
	require.Equal(t, 422, err.Status)
	require.EqualValues(t, 602, err.Code)
	require.Equal(t, "name in body is required; vip in body should match '^x$'", err.Reason)
	require.Zero(t, Schema(errors.New("odd")).Code)
}

func TestFrom_patternsExplained(t *testing.T) {
	for want, value := range map[string]interface {
		Validate(strfmt.Registry) error
	}{
		`kernel_arguments.0.value is "a b", which is not one kernel argument`: &models.InfraEnvUpdateParams{
			KernelArguments: models.KernelArguments{{Operation: "append", Value: "a b"}}},
		`mac_address is "eth0", which is not a MAC address`: &models.InfraEnvUpdateParams{
			StaticNetworkConfig: []*models.HostStaticNetworkConfig{
				{MacInterfaceMap: models.MacInterfaceMap{{MacAddress: "eth0"}}}}},
	} {
		require.ErrorContains(t, Schema(value.Validate(strfmt.Default)), want)
	}
}

func TestReason_oneReadableLine(t *testing.T) {
	said := func(reason string) string {
		recorder := httptest.NewRecorder()
		require.NoError(t, Write(recorder, httptest.NewRequest(http.MethodGet, "/", nil),
			New(http.StatusBadRequest, "%s", reason)))
		var body struct{ Reason string }
		require.NoError(t, json.Unmarshal(recorder.Body.Bytes(), &body))
		return body.Reason
	}
	require.Equal(t, "The name é is taken.", said("The name é is taken."))
	require.Equal(t, `The name a\r\n\x1b[31m\u202e is none.`, said("The name a\r\n\x1b[31m\u202e is none."))
	long := said("The name " + strings.Repeat("ä", 100_000) + " is too long.")
	require.Less(t, len(long), 2100)
	require.True(t, strings.HasPrefix(long, "The name ä") && strings.HasSuffix(long, "ä is too long."), long)
}
