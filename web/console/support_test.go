package console

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"landfall/web"
)

// TestSupportArchive_failureIsNoArchive has an archive whose secrets could not be collected.
func TestSupportArchive_failureIsNoArchive(t *testing.T) {
	server := web.New(web.Options{})
	require.NoError(t, server.Register(SupportOperations(func(context.Context, io.Writer, time.Time) error {
		return errors.New("the secrets of the site cannot be collected")
	})...))
	recorder := httptest.NewRecorder()
	server.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, SupportRoute, nil))
	require.Equal(t, http.StatusInternalServerError, recorder.Code)
	require.Equal(t, "application/json", recorder.Header().Get("Content-Type"))
	require.Empty(t, recorder.Header().Get("Content-Disposition"))
}
