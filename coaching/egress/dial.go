package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"
)

// dialer makes the connections that the policy allows, and tracks them to close them.
type dialer struct {
	policy   *Policy
	timeout  time.Duration
	lookupIP func(ctx context.Context, network, host string) ([]netip.Addr, error)

	base  context.Context // ends with close
	end   context.CancelFunc
	dials sync.WaitGroup

	mu    sync.Mutex
	conns map[*conn]struct{} // nil once closed
}

// dial is for http.Transport, whose context may outlive the request. The timeout and
// close bound it.
func (d *dialer) dial(ctx context.Context, _, address string) (net.Conn, error) {
	if !d.begin() {
		return nil, ErrClosed
	}
	defer d.dials.Done()
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	defer context.AfterFunc(d.base, cancel)()

	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, &ForbiddenError{"the endpoint", "has no host and port to connect to"}
	}
	addrs, vouched, err := d.resolve(ctx, host)
	if err != nil {
		return nil, d.explain(err)
	}
	c, err := d.connect(ctx, addrs, port, vouched)
	if err != nil {
		return nil, d.explain(err)
	}
	return d.track(c)
}

// explain returns ErrClosed after a close, and hides the name server.
func (d *dialer) explain(err error) error {
	if d.base.Err() != nil {
		return ErrClosed
	}
	if lookup, ok := errors.AsType[*net.DNSError](err); ok {
		public := *lookup
		public.Server = ""
		return &public
	}
	return err
}

// resolve returns the addresses of a host. If one is forbidden, the name is: the result must not
// depend on the order of addresses. vouched: the policy lists the name itself.
func (d *dialer) resolve(ctx context.Context, host string) (addrs []netip.Addr, vouched bool, err error) {
	addr, why := d.policy.checkHost(host)
	if why != "" {
		return nil, false, &ForbiddenError{host, why}
	}
	if addr.IsValid() {
		return []netip.Addr{addr}, false, nil
	}
	addrs, err = d.lookupIP(ctx, "ip", host)
	if err != nil {
		return nil, false, err
	}
	vouched = d.policy.vouches(canonical(host))
	for _, a := range addrs {
		// The message names the entry, since clients must not learn the address.
		if why := d.policy.refuse(a, vouched, canonical(host)); why != "" {
			return nil, false, &ForbiddenError{host, "resolves to " + why}
		}
	}
	if len(addrs) == 0 {
		return nil, false, fmt.Errorf("%s has no address", host)
	}
	return addrs[:min(len(addrs), maxAddresses)], vouched, nil
}

// connect tries the addresses in turn, each for its share of the remaining time.
func (d *dialer) connect(ctx context.Context, addrs []netip.Addr, port string, vouched bool) (net.Conn, error) {
	var errs []error
	for i, a := range addrs {
		until, _ := ctx.Deadline() // dial has set one
		share := max(time.Until(until)/time.Duration(len(addrs)-i), minAddressTime)
		nd := net.Dialer{
			Timeout: share,
			Control: d.policy.control(vouched),
			KeepAliveConfig: net.KeepAliveConfig{
				Enable: true, Idle: keepAliveIdle, Interval: keepAliveInterval, Count: keepAliveCount,
			},
		}
		c, err := nd.DialContext(ctx, "tcp", net.JoinHostPort(a.Unmap().String(), port))
		if err == nil {
			return c, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// control is the last check. It gets the address that the system is about to connect to.
func (p *Policy) control(vouched bool) func(network, address string, _ syscall.RawConn) error {
	return func(network, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil || network != "tcp4" && network != "tcp6" || to.Port() == 0 {
			return &ForbiddenError{network + " " + address, "is not an address to connect to"}
		}
		if why := p.refuse(to.Addr(), vouched, to.Addr().Unmap().String()); why != "" {
			return &ForbiddenError{to.Addr().String(), "is " + why}
		}
		return nil
	}
}

// begin counts a dial, unless the dialer is closed.
func (d *dialer) begin() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.conns == nil {
		return false
	}
	d.dials.Add(1)
	return true
}

func (d *dialer) track(c net.Conn) (net.Conn, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.conns == nil {
		_ = c.Close() // nothing was sent
		return nil, ErrClosed
	}
	tracked := &conn{Conn: c, dialer: d}
	d.conns[tracked] = struct{}{}
	return tracked, nil
}

// close closes all connections and waits for dials to end.
func (d *dialer) close() {
	d.mu.Lock()
	conns := d.conns
	d.conns = nil
	d.mu.Unlock()
	d.end()
	for c := range conns {
		_ = c.Conn.Close() // what could not be sent is lost on purpose
	}
	d.dials.Wait()
}

// conn is a connection that its dialer forgets when it is closed.
type conn struct {
	net.Conn
	dialer *dialer
}

func (c *conn) Close() error {
	c.dialer.mu.Lock()
	delete(c.dialer.conns, c) // of nil after close
	c.dialer.mu.Unlock()
	return c.Conn.Close()
}
