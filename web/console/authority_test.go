package console

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"landfall/web/problem"
)

func TestAuthorityOperations_sendsTheCertificates(t *testing.T) {
	get := func(roots []byte) (*httptest.ResponseRecorder, error) {
		recorder := httptest.NewRecorder()
		c := echo.New().NewContext(httptest.NewRequest(http.MethodGet, AuthorityRoute, nil), recorder)
		return recorder, AuthorityOperations(roots)[0].Handler(c)
	}
	response, err := get([]byte("-----BEGIN CERTIFICATE-----\n"))
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, response.Code)
	require.Equal(t, "-----BEGIN CERTIFICATE-----\n", response.Body.String())
	require.Equal(t, `attachment; filename="ca.crt"`, response.Header().Get("Content-Disposition"))

	_, err = get(nil)
	require.Equal(t, http.StatusNotFound, problem.From(err).Status, "without TLS")
}
