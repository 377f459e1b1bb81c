// Tests with the ACME server Pebble. They are a module of their own, so that what Pebble needs is no
// dependency of the program.
module landfall/appliance/authority/acmetest

go 1.26.0

replace landfall => ../../..

require (
	github.com/jonboulle/clockwork v0.5.0
	github.com/letsencrypt/pebble/v2 v2.10.1
	github.com/miekg/dns v1.1.73
	github.com/stretchr/testify v1.12.1
	landfall v0.0.0
)

require (
	github.com/go-jose/go-jose/v4 v4.1.4 // indirect
	github.com/letsencrypt/challtestsrv v1.4.2 // indirect
	go.yaml.in/yaml/v3 v3.0.6 // indirect
	golang.org/x/crypto v0.57.0 // indirect
	golang.org/x/net v0.59.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.42.0 // indirect
)
