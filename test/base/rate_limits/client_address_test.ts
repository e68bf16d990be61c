import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import {
  parseTrustedProxies,
  type TrustedProxies,
  toClientGroup,
} from "../../../src/base/rate_limits/mod.ts";

function trust(text: string): TrustedProxies {
  const parsed = parseTrustedProxies(text);
  if (!parsed.ok) throw new Error(parsed.error);
  return parsed.proxies;
}

const proxies = trust("10.0.0.0/8, 2001:db8:ffff::/48");
const through = (peer: string, forwardedFor: string) =>
  toClientGroup({ peer, forwardedFor, trustedProxies: proxies });

describe("toClientGroup()", () => {
  test.each([
    ["203.0.113.9", "203.0.113.9"],
    ["::ffff:203.0.113.9", "203.0.113.9"],
    ["::FFFF:cb00:7109", "203.0.113.9"],
    ["0:0:0:0:0:ffff:203.0.113.9", "203.0.113.9"],
    ["2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"],
    ["2001:DB8:1:2::", "2001:db8:1:2::/64"],
    ["2001:db8::1", "2001:db8:0:0::/64"],
    ["::1", "0:0:0:0::/64"],
    ["fe80::1%eth0", "fe80:0:0:0::/64"],
  ])("toClientGroup() names the group of peer %s", (peer, group) => {
    expect(toClientGroup({ peer, trustedProxies: [] })).toBe(group);
  });

  test("toClientGroup() groups all addresses of a /64, and separates any two /64 networks", () => {
    const group = (peer: string) => toClientGroup({ peer, trustedProxies: [] });
    const part = fc.constantFrom("0", "1", "01", "db8", "ffff");
    const half = fc.tuple(part, part, part, part);
    fc.assert(
      fc.property(half, half, half, half, (a, b, hostA, hostB) => {
        const isSame = a.every((value, i) => Number.parseInt(value, 16) === Number.parseInt(b[i] ?? "", 16));
        const areAllZero = [...a, ...b].every((value) => /^0/.test(value));
        fc.pre(!areAllZero);
        expect(group([...a, ...hostA].join(":")) === group([...b, ...hostB].join(":"))).toBe(isSame);
      }),
    );
    expect(group("2001:db8:1:2::1")).toBe(group("2001:db8:1:2:ffff:ffff:ffff:ffff"));
    expect(group("2001:db8:1:2::1")).not.toBe(group("2001:db8:1:3::1"));
  });

  test("toClientGroup() returns a group of one form for every IPv6 address, however it is spelled", () => {
    fc.assert(
      fc.property(fc.ipV6(), (peer) => {
        expect(toClientGroup({ peer, trustedProxies: [] })).toMatch(/^([0-9a-f]{1,4}:){4}:\/64$|^[\d.]+$/);
      }),
    );
  });

  test.each([[undefined], [""], ["unix:"], ["1.2.3"], ["0x7f.0.0.1"], ["010.0.0.1"], ["1.2.3.4%eth0"]])(
    "toClientGroup() puts an unreadable peer address, %p, into one group and reads no header",
    (peer) => {
      expect(toClientGroup({ peer, forwardedFor: "192.0.2.1", trustedProxies: proxies })).toBe("unknown");
    },
  );

  test("toClientGroup() ignores a forged X-Forwarded-For header from a peer that is not a trusted proxy", () => {
    expect(through("203.0.113.9", "192.0.2.1")).toBe("203.0.113.9");
    expect(through("2001:db8:1::1", "10.0.0.1")).toBe("2001:db8:1:0::/64");
    expect(toClientGroup({ peer: "10.0.0.1", forwardedFor: "192.0.2.1", trustedProxies: [] })).toBe(
      "10.0.0.1",
    );
  });

  test("toClientGroup() reads a trusted proxy's header from the right, and skips trusted proxies", () => {
    expect(through("10.0.0.1", "192.0.2.1")).toBe("192.0.2.1");
    expect(through("10.0.0.1", "192.0.2.1, 10.0.0.2,10.0.0.3")).toBe("192.0.2.1");
    expect(through("2001:db8:ffff::1", "192.0.2.1, 2001:db8:ffff:7::2")).toBe("192.0.2.1");
    expect(through("::ffff:10.0.0.1", "192.0.2.1,::ffff:10.0.0.2")).toBe("192.0.2.1");
  });

  test("toClientGroup() ignores every entry left of the first untrusted address", () => {
    expect(through("10.0.0.1", "198.51.100.7, 192.0.2.1")).toBe("192.0.2.1");
    expect(through("10.0.0.1", "10.0.0.9, 198.51.100.7, 192.0.2.1, 10.0.0.2")).toBe("192.0.2.1");
  });

  test("toClientGroup() takes the leftmost address when all are trusted", () => {
    expect(through("10.0.0.1", "10.0.0.3, 10.0.0.2")).toBe("10.0.0.3");
  });

  test.each([
    ["192.0.2.1:8080", "192.0.2.1"],
    ["[2001:db8:1::1]", "2001:db8:1:0::/64"],
    ["[2001:db8:1::1]:443", "2001:db8:1:0::/64"],
    ["[::ffff:192.0.2.1]:443", "192.0.2.1"],
    ["fe80::1%eth0", "fe80:0:0:0::/64"],
    ["[fe80::1%25eth0]:443", "fe80:0:0:0::/64"],
    ["\t 192.0.2.1  ", "192.0.2.1"],
  ])("toClientGroup() reads the entry %p", (entry, group) => {
    expect(through("10.0.0.1", entry)).toBe(group);
    expect(through("10.0.0.1", `198.51.100.7, ${entry}, 10.0.0.2`)).toBe(group);
  });

  test.each([
    [""],
    [" "],
    ["unknown"],
    ["_hidden"],
    ["192.0.2"],
    ["192.0.2.256"],
    ["0300.0.2.1"],
    ["3221225985"],
    ["192.0.2.1:port"],
    ["192.0.2.1:"],
    ["[192.0.2.1"],
    ["2001:db8:::1"],
    ["[2001:db8::1]443"],
    ['"192.0.2.1"'],
    ["192.0.2.1 198.51.100.7"],
    [`fe80::1%${"e".repeat(100)}`],
  ])("toClientGroup() stops at the entry %p and goes by the proxy that passed it on", (entry) => {
    expect(through("10.0.0.1", `198.51.100.7, ${entry}`)).toBe("10.0.0.1");
    expect(through("10.0.0.1", `198.51.100.7, ${entry}, 10.0.0.2`)).toBe("10.0.0.2");
  });

  test("toClientGroup() reads only the end of a very long header", () => {
    const junk = `${"198.51.100.7,".repeat(100_000)}`;
    expect(through("10.0.0.1", `${junk}192.0.2.1`)).toBe("192.0.2.1");
    expect(through("10.0.0.1", `${"x".repeat(1e6)},192.0.2.1`)).toBe("192.0.2.1");
    expect(through("10.0.0.1", "1".repeat(1e6))).toBe("10.0.0.1");
  });

  test("toClientGroup() does not use an entry that the length bound cuts", () => {
    const trusted = `10.0.0.9${",10.0.0.2".repeat(452)}`;
    expect(through("10.0.0.1", `192.0.2.15,${trusted}`)).toBe("192.0.2.15");
    // Here the last 4,096 characters begin with "2.0.2.15".
    expect(through("10.0.0.1", `192.0.2.15,${trusted.padEnd(4087)}`)).toBe("10.0.0.9");
  });

  test("toClientGroup() lets no sender behind a proxy choose its group", () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 200 }), (forged) => {
        expect(through("10.0.0.1", `${forged}, 192.0.2.1`)).toBe("192.0.2.1");
        expect(through("203.0.113.9", forged)).toBe("203.0.113.9");
      }),
    );
  });
});

describe("parseTrustedProxies()", () => {
  const isTrusted = (text: string, peer: string) =>
    toClientGroup({ peer, forwardedFor: "192.0.2.1", trustedProxies: trust(text) }) === "192.0.2.1";

  test("parseTrustedProxies() trusts no address when the text is blank", () => {
    expect(parseTrustedProxies("")).toEqual({ ok: true, proxies: [] });
    expect(parseTrustedProxies(" ,\n")).toEqual({ ok: true, proxies: [] });
  });

  test("parseTrustedProxies() reads addresses and networks separated by commas or white space", () => {
    const text = "10.0.0.1 172.16.0.0/12,\n2001:db8::1\t2001:db8:1::/48";
    for (const peer of ["10.0.0.1", "172.31.255.255", "2001:db8::1", "2001:db8:1:ffff::1"]) {
      expect(isTrusted(text, peer)).toBe(true);
    }
    for (const peer of ["10.0.0.2", "172.32.0.0", "2001:db8::2", "2001:db8:2::"]) {
      expect(isTrusted(text, peer)).toBe(false);
    }
  });

  test("parseTrustedProxies() treats mapped addresses and networks as IPv4", () => {
    expect(isTrusted("::ffff:10.0.0.1", "10.0.0.1")).toBe(true);
    expect(isTrusted("::ffff:10.0.0.0/104", "10.9.9.9")).toBe(true);
    expect(isTrusted("::ffff:10.0.0.0/104", "11.0.0.1")).toBe(false);
    expect(isTrusted("10.0.0.0/8", "::ffff:10.9.9.9")).toBe(true);
  });

  test("parseTrustedProxies() accepts any address of a network in place of its first", () => {
    expect(isTrusted("10.1.2.3/8", "10.9.9.9")).toBe(true);
  });

  test.each([
    ["10.0.0.0/33", "has a prefix length above 32"],
    ["::1/129", "has a prefix length above 128"],
    ["0.0.0.0/0", "would trust every sender"],
    ["::/0", "would trust every sender"],
    ["::ffff:0:0/96", "would trust every IPv4 sender"],
    ["10.0.0/8", "is not an IP address or a network such as 10.0.0.0/8"],
    ["10.0.0.0/", "is not an IP address or a network such as 10.0.0.0/8"],
    ["10.0.0.0/-1", "is not an IP address or a network such as 10.0.0.0/8"],
    ["10.0.0.0/8/8", "is not an IP address or a network such as 10.0.0.0/8"],
    ["010.0.0.1", "is not an IP address or a network such as 10.0.0.0/8"],
    ["fe80::1%eth0", "is not an IP address or a network such as 10.0.0.0/8"],
    ["proxy.example", "is not an IP address or a network such as 10.0.0.0/8"],
    ["/8", "is not an IP address or a network such as 10.0.0.0/8"],
  ])("parseTrustedProxies() refuses %s by name", (entry, reason) => {
    expect(parseTrustedProxies(`10.0.0.1, ${entry}, 10.0.0.2`)).toEqual({
      ok: false,
      error: `"${entry}" ${reason}`,
    });
  });
});
