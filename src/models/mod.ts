/** The registry of pre-trained models: names, versions, and who sees them. Owns `models` and `model_versions`. */
export { addModel, removeModel } from "./change_models.ts";
export { listAllModels, listModelsFor } from "./list_models.ts";
export { type ModelSummary, type NewModel, parseNewModel } from "./model.ts";
