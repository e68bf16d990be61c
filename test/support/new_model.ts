/** Makes the fields of a model, for tests of the registry without a service. */

/** Returns the fields of a free model of motor imagery; `fields` replaces any of them. */
export function newModel(fields: object = {}): object {
  return {
    name: "motor_imagery_4class_v1",
    version: "1.0.0",
    type: "SvcLDA",
    paradigm: "motor_imagery",
    nFeatures: 44,
    nClasses: 4,
    sizeMb: 2.4,
    downloadUrl: "https://models.example/m",
    checksum: "ab".repeat(32),
    requiresLicense: "free",
    metadata: {},
    ...fields,
  };
}
