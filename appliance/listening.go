package appliance

import "net"

// listening returns the addresses at which the appliance listens.
func (a *Appliance) listening() []net.Addr {
	var addresses []net.Addr
	if a.address != nil {
		addresses = append(addresses, a.address)
	}
	if a.boot != nil {
		addresses = append(addresses, a.boot.Addr())
	}
	if a.kubernetes != nil && a.kubernetes.address != nil {
		addresses = append(addresses, a.kubernetes.address)
	}
	if address := a.registry.Addr(); address != nil {
		addresses = append(addresses, address)
	}
	return addresses
}
